//! The git metadata of a workspace, found without running git.
//!
//! A host's `git` obeys what lies in `.git`: hooks, `config`, `info/attributes`
//! and the pointer files of worktrees run programs outside the jail. So they
//! stay as they are, while commits go on working. Nothing that a workspace
//! says is believed: a `.git` file that points outside is followed only to a
//! real git directory whose own back-pointer names this workspace.

use std::fs;
use std::io::Read;
use std::path::{Component, Path, PathBuf};

use crate::policy::{Access, Origin};
use crate::profile::Place;
use crate::resolve::{Ask, Asker, Draft, walk};

/// Pointer files hold one path; more is no pointer file.
const LONGEST_POINTER: u64 = 8192;

/// What must not change in a git directory, because a program outside obeys
/// it. Those that exist are protected.
const OBEYED: &[&str] = &[
    "config",
    "config.worktree",
    "hooks",
    "info",
    "commondir",
    "gitdir",
];

/// Where a workspace's git metadata is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum GitMeta {
    /// There is none in the workspace.
    None,
    /// A plain `.git` folder.
    Folder(PathBuf),
    /// A linked worktree: its own folder, and the one it shares.
    Worktree { own: PathBuf, common: PathBuf },
    /// A submodule: its folder below the superproject's `.git/modules`.
    Submodule(PathBuf),
    /// A `.git` file that is not followed, and why.
    Strange(String),
}

/// Looks at `workspace` (canonical).
pub(crate) fn find(workspace: &Path) -> GitMeta {
    let dot_git = workspace.join(".git");
    let Ok(meta) = dot_git.symlink_metadata() else {
        return GitMeta::None;
    };
    if meta.is_dir() {
        return GitMeta::Folder(dot_git);
    }
    if meta.is_symlink() {
        return inside_link(&dot_git, workspace);
    }
    match follow(&dot_git, workspace) {
        Ok(found) => found,
        Err(why) => GitMeta::Strange(why),
    }
}

/// A `.git` that is a symbolic link is fine while it stays in the workspace.
fn inside_link(dot_git: &Path, workspace: &Path) -> GitMeta {
    match walk(dot_git) {
        Ok(found) if found.path.starts_with(workspace) && found.path != workspace => {
            GitMeta::Folder(found.path)
        }
        Ok(found) => GitMeta::Strange(format!(
            "{} is a link to {}, outside the workspace",
            dot_git.display(),
            found.path.display()
        )),
        Err(error) => GitMeta::Strange(format!(
            "{} is a link that leads nowhere: {error}",
            dot_git.display()
        )),
    }
}

/// Follows a `.git` file and checks the way back.
fn follow(dot_git: &Path, workspace: &Path) -> Result<GitMeta, String> {
    let text = pointer(dot_git)?;
    let target = text
        .strip_prefix("gitdir:")
        .ok_or_else(|| format!("{} does not say gitdir:", dot_git.display()))?
        .trim();
    let own = real_dir(&workspace.join(target))?;
    if is_worktree_of(&own, dot_git) {
        let common = real_dir(&own.join(pointer(&own.join("commondir"))?.trim()))?;
        // `git worktree add` puts it exactly there; anything else was made to
        // look like one.
        if own.parent() != Some(&common.join("worktrees")) {
            return Err(format!(
                "{} is not below {}/worktrees",
                own.display(),
                common.display()
            ));
        }
        check_git_dir(&common)?;
        return Ok(GitMeta::Worktree { own, common });
    }
    if is_submodule_of(&own, workspace) {
        check_git_dir(&own)?;
        return Ok(GitMeta::Submodule(own));
    }
    Err(format!(
        "{} does not point back to {}",
        own.display(),
        dot_git.display()
    ))
}

/// Whether `own/gitdir` names this very `.git` file.
fn is_worktree_of(own: &Path, dot_git: &Path) -> bool {
    pointer(&own.join("gitdir")).is_ok_and(|back| {
        let back = own.join(back.trim());
        walk(&back).is_ok_and(|found| found.path == dot_git)
    })
}

/// Whether `own/config` says `worktree = ` this workspace.
fn is_submodule_of(own: &Path, workspace: &Path) -> bool {
    let mut names = own.components();
    let below_modules = names.any(|part| part == Component::Normal(".git".as_ref()))
        && names.any(|part| part == Component::Normal("modules".as_ref()));
    below_modules
        && pointer(&own.join("config")).is_ok_and(|config| {
            config
                .lines()
                .filter_map(|line| {
                    line.trim()
                        .strip_prefix("worktree")?
                        .trim_start()
                        .strip_prefix('=')
                })
                .any(|value| {
                    let value = value.trim().trim_matches('"');
                    walk(&own.join(value)).is_ok_and(|found| found.path == workspace)
                })
        })
}

/// Whether a folder is a git directory: a model could point at any folder.
fn check_git_dir(dir: &Path) -> Result<(), String> {
    let whole =
        dir.join("HEAD").is_file() && dir.join("objects").is_dir() && dir.join("refs").is_dir();
    if whole {
        Ok(())
    } else {
        Err(format!("{} is no git directory", dir.display()))
    }
}

fn real_dir(path: &Path) -> Result<PathBuf, String> {
    match walk(path) {
        Ok(found) if found.path.is_dir() => Ok(found.path),
        Ok(found) => Err(format!("{} is no folder", found.path.display())),
        Err(error) => Err(format!("{} cannot be followed: {error}", path.display())),
    }
}

fn pointer(path: &Path) -> Result<String, String> {
    let fail = |error: std::io::Error| format!("{} cannot be read: {error}", path.display());
    let meta = path.symlink_metadata().map_err(fail)?;
    if !meta.is_file() || meta.len() > LONGEST_POINTER {
        return Err(format!("{} is no pointer file", path.display()));
    }
    let mut text = String::new();
    fs::File::open(path)
        .and_then(|file| file.take(LONGEST_POINTER).read_to_string(&mut text))
        .map_err(fail)?;
    Ok(text)
}

/// Protects the metadata in the draft and, with `with_git`, grants what lies
/// outside the workspace so that git works.
pub(crate) fn apply(
    workspace: &Path,
    access: Access,
    with_git: bool,
    draft: &mut Draft<'_>,
) -> Result<(), crate::ProfileError> {
    match find(workspace) {
        GitMeta::None => {
            if with_git && let Some(outer) = enclosing(workspace) {
                draft.note(
                    "git_outside",
                    format!(
                        "the workspace lies inside the repository {}, which is not granted, so git does not work here; take that folder as the workspace to use git",
                        outer.display()
                    ),
                );
            }
        }
        GitMeta::Folder(git) => {
            protect_dir(&git, draft);
            if with_git {
                note_alternates(&git, draft);
            }
        }
        GitMeta::Strange(why) => {
            // The pointer stays as it is all the same.
            draft.protect(
                &workspace.join(".git"),
                false,
                origin("the pointer to the git directory"),
            );
            draft.note(
                "git_not_granted",
                format!("the git directory is not granted: {why}"),
            );
        }
        GitMeta::Worktree { own, common } => {
            draft.protect(
                &workspace.join(".git"),
                false,
                origin("the pointer to the git directory"),
            );
            if with_git {
                grant(
                    &common,
                    access,
                    draft,
                    "the git directory that this worktree shares",
                )?;
                protect_dir(&common, draft);
                protect_dir(&own, draft);
                protect_others(&common, &own, draft);
                draft.protect(
                    &common.join("modules"),
                    false,
                    origin("submodules of the main worktree"),
                );
                note_alternates(&common, draft);
            }
        }
        GitMeta::Submodule(own) => {
            draft.protect(
                &workspace.join(".git"),
                false,
                origin("the pointer to the git directory"),
            );
            if with_git {
                grant(&own, access, draft, "the git directory of this submodule")?;
                protect_dir(&own, draft);
            }
        }
    }
    Ok(())
}

fn grant(
    dir: &Path,
    access: Access,
    draft: &mut Draft<'_>,
    reason: &str,
) -> Result<(), crate::ProfileError> {
    draft.grant(Ask {
        path: dir.to_path_buf(),
        // Hooks and filters are the host's business: nothing is run from here.
        access: access - Access::EXECUTE,
        optional: false,
        origin: origin(reason),
        at: Place::request(),
        asker: Asker::Host,
    })?;
    Ok(())
}

/// Pins a git directory and protects what git obeys in it, in the modules
/// below it and in the records of other worktrees.
fn protect_dir(git: &Path, draft: &mut Draft<'_>) {
    draft.protect(git, true, origin("a git directory stays where it is"));
    for name in OBEYED {
        draft.protect(
            &git.join(name),
            false,
            origin("git obeys it outside the jail"),
        );
    }
    for_each_dir(&git.join("worktrees"), &mut |dir| {
        for name in ["commondir", "gitdir", "config.worktree"] {
            draft.protect(
                &dir.join(name),
                false,
                origin("git obeys it outside the jail"),
            );
        }
    });
    protect_modules(&git.join("modules"), 0, draft);
}

/// Module directories nest (`modules/a/modules/b`, and names hold slashes).
fn protect_modules(dir: &Path, depth: u32, draft: &mut Draft<'_>) {
    if depth > 8 {
        return;
    }
    for_each_dir(dir, &mut |module| {
        if module.join("HEAD").is_file() {
            for name in OBEYED {
                draft.protect(
                    &module.join(name),
                    false,
                    origin("git obeys it outside the jail"),
                );
            }
            protect_modules(&module.join("modules"), depth + 1, draft);
        } else {
            protect_modules(module, depth + 1, draft);
        }
    });
}

/// The records of other worktrees are not this workspace's to change.
fn protect_others(common: &Path, own: &Path, draft: &mut Draft<'_>) {
    for_each_dir(&common.join("worktrees"), &mut |dir| {
        if dir != own {
            draft.protect(dir, false, origin("another worktree's record"));
        }
    });
}

fn for_each_dir(dir: &Path, act: &mut dyn FnMut(&Path)) {
    let Ok(entries) = fs::read_dir(dir) else {
        return;
    };
    let mut dirs: Vec<PathBuf> = entries
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect();
    dirs.sort();
    for dir in dirs.into_iter().take(512) {
        act(&dir);
    }
}

/// Objects borrowed from another repository are named by a file that a model
/// can write, so they are never granted by it.
fn note_alternates(git: &Path, draft: &mut Draft<'_>) {
    let Ok(text) = pointer(&git.join("objects/info/alternates")) else {
        return;
    };
    for line in text
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
    {
        let path = git.join("objects").join(line);
        let seen = walk(&path).is_ok_and(|found| draft.given(&found.path).contains(Access::READ));
        if !seen {
            draft.note(
                "git_alternates",
                format!("the repository borrows objects from {}, which is not granted; --allow read:{} grants it", path.display(), path.display()),
            );
        }
    }
}

/// The folder above `workspace` that is a repository, if there is one.
fn enclosing(workspace: &Path) -> Option<PathBuf> {
    workspace
        .ancestors()
        .skip(1)
        .find(|dir| dir.join(".git").symlink_metadata().is_ok())
        .map(Path::to_path_buf)
}

fn origin(reason: &str) -> Origin {
    Origin {
        source: "git metadata".to_owned(),
        line: 0,
        reason: reason.to_owned(),
    }
}

#[cfg(test)]
mod tests;
