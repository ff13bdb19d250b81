//! From a profile and a request to a [`Policy`] on this host.
//!
//! Every path is followed once, here, and becomes a fact; nothing is looked up
//! by name again. What cannot be granted is an error when a profile or a person
//! asked for it, and left out with a note when the host's own layout did.

mod canonical;
mod credentials;
mod draft;
mod environment;
mod files;
mod home;
mod private;
mod workspace;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;

pub(crate) use canonical::{Found, nearest, settle, walk};
pub(crate) use credentials::Credentials;
pub(crate) use draft::{Ask, Asker, Draft};
pub(crate) use home::Home;

use crate::policy::{Access, Grant, Network, Observe, Origin, Policy};
use crate::profile::{Line, Place, Profile, ProfileError, ProfileSet, Variables};
use crate::{gitmeta, toolchain};

/// What is wanted of a profile, this time.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Name of the profile.
    pub profile: String,
    /// The workspace.
    pub workspace: Option<PathBuf>,
    /// Added grants, named one by one by a person.
    pub allow: Vec<(Access, PathBuf)>,
    /// Added toolchains; `auto` adds those on `PATH`.
    pub toolchains: Vec<String>,
    /// In the place of the profile's network mode.
    pub network: Option<Network>,
    /// In the place of what the profile observes.
    pub observe: Option<Observe>,
    /// Variables passed by a person, one by one.
    pub env: Vec<(OsString, OsString)>,
    /// Host folder whose sub-folders are shown as the private folders of the
    /// home directory, so that they last longer than a cell.
    pub private_home: Option<PathBuf>,
    /// Grants of the program itself, such as its own binary.
    pub extra: Vec<ExtraGrant>,
}

/// A host path shown at a place of the caller's choice.
#[derive(Clone, Debug)]
pub struct ExtraGrant {
    /// Absolute path as the jailed process sees it.
    pub path_inside: PathBuf,
    /// What is shown there.
    pub host: PathBuf,
    /// What may be done.
    pub access: Access,
}

/// What the resolver has to know of this host and user. It reads no
/// environment by itself.
#[derive(Clone, Default)]
pub struct Host {
    /// The home directory, as the user spells it.
    pub home: PathBuf,
    /// The folders of `PATH`, in order.
    pub path: Vec<PathBuf>,
    /// The environment.
    pub env: Vec<(OsString, OsString)>,
    /// Login name.
    pub user: String,
}

impl fmt::Debug for Host {
    /// Shows names of variables, never a value: some are secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.env.iter().map(|(name, _)| name).collect();
        f.debug_struct("Host")
            .field("home", &self.home)
            .field("path", &self.path)
            .field("env", &names)
            .field("user", &self.user)
            .finish()
    }
}

/// Something that a person may want to know about a resolution.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Note {
    /// Stable code.
    pub code: &'static str,
    /// One sentence.
    pub text: String,
}

/// A policy, and how it came about.
#[derive(Clone, Debug)]
pub struct Resolved {
    /// The policy.
    pub policy: Policy,
    /// The profiles it was made of, parents first.
    pub chain: Vec<String>,
    /// The toolchains in use.
    pub toolchains: Vec<String>,
    /// What was left out, and why.
    pub notes: Vec<Note>,
}

/// Resolves a request on this host.
pub fn resolve(set: &ProfileSet, request: &Request, host: &Host) -> Result<Policy, ProfileError> {
    resolve_noted(set, request, host).map(|resolved| resolved.policy)
}

/// Resolves a request and says how it came about.
pub fn resolve_noted(
    set: &ProfileSet,
    request: &Request,
    host: &Host,
) -> Result<Resolved, ProfileError> {
    let profile = set.load(&request.profile)?;
    let network = request.network.unwrap_or(profile.network);
    let home = Home::of(request, host)?;
    let spellings = home.spellings(host);
    let homes: Vec<&Path> = spellings.iter().map(PathBuf::as_path).collect();
    let allowed: BTreeSet<PathBuf> = request.allow.iter().map(|(_, path)| settle(path)).collect();
    let credentials = Credentials::of(host, &homes, allowed)?;

    let workspace = if profile.uses_workspace() {
        Some(workspace::find(
            &profile,
            request,
            &spellings,
            &credentials,
        )?)
    } else {
        None
    };
    let vars = variables(
        workspace.as_ref().map(|found| found.path.as_path()),
        &home,
        host,
    );

    let mut draft = Draft::new(spellings.clone(), &credentials, network);
    let mut tools = toolchain::Chosen::new(
        set,
        profile.toolchains.as_ref(),
        &request.toolchains,
        &vars,
        host,
    )?;
    for line in &profile.scratch {
        draft.scratch(&vars.path(line)?);
    }
    home.add(&profile.home_dirs, &vars, &mut draft)?;
    tools.homes(&home, &mut draft)?;
    if let Some(found) = &workspace {
        // The spelling that was given has to work inside as well.
        draft.place(found);
    }
    draft.lines(&profile.grants, &vars, Asker::Profile)?;
    tools.grants(&mut draft)?;
    allow(request, &mut draft)?;
    extra(request, &mut draft)?;
    if let Some(found) = &workspace {
        let access = draft.given(&found.path);
        gitmeta::apply(&found.path, access, tools.has("git"), &mut draft)?;
    }
    let path = tools.path(host, &home, &mut draft)?;
    for line in &profile.protect {
        draft.protect(
            &vars.path(line)?,
            false,
            draft::origin(line, "programs outside obey it"),
        );
    }
    for line in &profile.hide {
        draft.hide(&vars.path(line)?);
    }
    if let Ok(found) = walk(&home.spelled) {
        draft.place(&found);
    }
    draft.finish();
    home.mount_points(&draft)?;

    let env = environment(
        &profile, &tools, request, host, &home, &path, network, &vars, &mut draft,
    )?;
    let workspace = workspace.map(|found| found.path);
    let cwd = workspace
        .clone()
        .or_else(|| draft.scratch.iter().next().cloned())
        .unwrap_or_else(|| PathBuf::from("/"));
    let empty_dirs = empty_dirs(&home, &draft);
    let policy = Policy {
        name: profile.name.clone(),
        workspace,
        cwd,
        grants: draft.grants.into_values().collect(),
        links: draft.links.into_iter().collect(),
        empty_dirs,
        scratch: draft.scratch.into_iter().collect(),
        protect: draft.protect.into_values().collect(),
        hide: draft.hide.into_iter().collect(),
        network,
        env,
        limits: profile.limits.clone(),
        deadline: profile.deadline_seconds.map(Duration::from_secs),
        observe: request.observe.unwrap_or(profile.observe),
        relax: profile.relax.clone(),
        floor: profile.floor.clone(),
    };
    Ok(Resolved {
        policy,
        chain: profile.chain,
        toolchains: tools.names(),
        notes: draft.notes,
    })
}

/// The home directory, and in private folders the way down to what is granted
/// there: it bears the names of host folders, so it is no place to write.
fn empty_dirs(home: &Home, draft: &Draft<'_>) -> Vec<PathBuf> {
    let mut empty = BTreeSet::from([home.inside.clone()]);
    for shown in draft.grants.keys().chain(&draft.scratch) {
        let private = shown
            .ancestors()
            .skip(1)
            .find(|dir| draft.scratch.contains(*dir) || draft.grants.contains_key(*dir))
            .filter(|dir| draft.scratch.contains(*dir));
        let first =
            private.and_then(|dir| Some(dir.join(shown.strip_prefix(dir).ok()?.iter().next()?)));
        empty.extend(first.filter(|first| first != shown));
    }
    empty.into_iter().collect()
}

fn variables(workspace: Option<&Path>, home: &Home, host: &Host) -> Variables {
    let mut vars = Variables::default();
    if let Some(workspace) = workspace {
        vars.set("WORKSPACE", workspace);
    }
    vars.set("HOME", &home.spelled);
    vars.set("TMP", "/tmp");
    vars.set("USER", &host.user);
    vars
}

/// Adds what a person named.
fn allow(request: &Request, draft: &mut Draft<'_>) -> Result<(), ProfileError> {
    for (access, path) in &request.allow {
        let line = Line {
            text: path.display().to_string(),
            at: Place::request(),
            source: "command line".to_owned(),
        };
        if !path.is_absolute() {
            return Err(ProfileError::Path {
                at: line.at,
                path: path.clone(),
                what: "is not absolute",
            });
        }
        draft.grant(Ask {
            path: path.clone(),
            access: *access,
            optional: false,
            origin: draft::origin(&line, "named by a person"),
            at: line.at,
            asker: Asker::Person,
        })?;
    }
    Ok(())
}

/// Adds what the program itself needs.
fn extra(request: &Request, draft: &mut Draft<'_>) -> Result<(), ProfileError> {
    for extra in &request.extra {
        let at = Place {
            file: "delegate itself".to_owned(),
            line: 0,
        };
        let origin = Origin {
            source: "delegate".to_owned(),
            line: 0,
            reason: "delegate needs it to work in the jail".to_owned(),
        };
        if extra.path_inside == extra.host {
            draft.grant(Ask {
                path: extra.host.clone(),
                access: extra.access,
                optional: false,
                origin,
                at,
                asker: Asker::Person,
            })?;
            continue;
        }
        let found = walk(&extra.host).map_err(|source| ProfileError::Missing {
            at,
            path: extra.host.clone(),
            source,
        })?;
        draft.grants.insert(
            extra.path_inside.clone(),
            Grant {
                path: extra.path_inside.clone(),
                source: Some(found.path),
                access: extra.access,
                kind: found.kind,
                dev: found.dev,
                ino: found.ino,
                origin,
            },
        );
    }
    Ok(())
}

#[expect(
    clippy::too_many_arguments,
    reason = "one call, and each is a different thing"
)]
fn environment(
    profile: &Profile,
    tools: &toolchain::Chosen,
    request: &Request,
    host: &Host,
    home: &Home,
    path: &[PathBuf],
    network: Network,
    vars: &Variables,
    draft: &mut Draft<'_>,
) -> Result<Vec<(OsString, OsString)>, ProfileError> {
    let mut asked = vec![(&profile.env, vars)];
    asked.extend(tools.env());
    let mut fixed: Vec<(&'static str, OsString)> =
        vec![("HOME", home.spelled.clone().into_os_string())];
    if !host.user.is_empty() {
        fixed.push(("USER", host.user.clone().into()));
        fixed.push(("LOGNAME", host.user.clone().into()));
    }
    // A folder whose name holds `:` cannot be in PATH; it was not on the host.
    if let Ok(joined) = std::env::join_paths(path)
        && !joined.is_empty()
    {
        fixed.push(("PATH", joined));
    }
    let shell = host
        .env
        .iter()
        .find(|(name, _)| name == "SHELL")
        .map(|(_, value)| PathBuf::from(value));
    let usable = shell.filter(|shell| {
        walk(shell).is_ok_and(|found| draft.given(&found.path).contains(Access::EXECUTE))
    });
    fixed.push((
        "SHELL",
        usable
            .unwrap_or_else(|| PathBuf::from("/bin/sh"))
            .into_os_string(),
    ));
    environment::build(
        &environment::Sources {
            host: &host.env,
            asked,
            network,
            fixed,
            explicit: &request.env,
        },
        &mut draft.notes,
    )
}

#[cfg(test)]
mod tests;
