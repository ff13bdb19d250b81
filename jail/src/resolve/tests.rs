use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use super::*;

/// A made-up host: a home, a workspace, and profiles of the test's own. Not
/// below /tmp, which every profile makes private.
struct Scene {
    _dir: tempfile::TempDir,
    base: PathBuf,
    home: PathBuf,
    ws: PathBuf,
}

impl Scene {
    fn new() -> Scene {
        let dir = tempfile::tempdir_in("/var/tmp").expect("tempdir");
        let base = dir.path().canonicalize().expect("canonical");
        let home = base.join("home/u");
        let ws = home.join("ws");
        fs::create_dir_all(&ws).expect("mkdir");
        fs::create_dir_all(base.join("profiles")).expect("mkdir");
        Scene {
            _dir: dir,
            base,
            home,
            ws,
        }
    }

    fn dir(&self, path: &str) -> PathBuf {
        let path = self.base.join(path);
        fs::create_dir_all(&path).expect("mkdir");
        path
    }

    fn file(&self, path: &str, mode: u32) -> PathBuf {
        let path = self.base.join(path);
        fs::create_dir_all(path.parent().expect("parent")).expect("mkdir");
        fs::write(&path, "x").expect("write");
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("mode");
        path
    }

    fn profile(&self, body: &str) -> Request {
        let text = format!("name = \"t\"\n{body}");
        fs::write(self.base.join("profiles/t.toml"), text).expect("write");
        self.request("t")
    }

    fn request(&self, profile: &str) -> Request {
        Request {
            profile: profile.to_owned(),
            workspace: Some(self.ws.clone()),
            ..Request::default()
        }
    }

    fn set(&self) -> ProfileSet {
        ProfileSet::builtin().with_dir(self.base.join("profiles"))
    }

    fn host(&self, path: &[&Path]) -> Host {
        Host {
            home: self.home.clone(),
            path: path.iter().map(|dir| dir.to_path_buf()).collect(),
            env: Vec::new(),
            user: "u".to_owned(),
        }
    }

    fn resolve(&self, request: &Request) -> Resolved {
        self.resolve_on(request, &self.host(&[]))
    }

    fn resolve_on(&self, request: &Request, host: &Host) -> Resolved {
        resolve_noted(&self.set(), request, host).expect("resolves")
    }

    fn error(&self, request: &Request) -> ProfileError {
        resolve(&self.set(), request, &self.host(&[])).expect_err("refused")
    }
}

fn allows(policy: &Policy, path: impl AsRef<Path>, access: Access) -> bool {
    policy.judge(path.as_ref(), access).allowed
}

fn env<'p>(policy: &'p Policy, name: &str) -> Option<&'p str> {
    policy
        .env
        .iter()
        .find(|(key, _)| key == name)
        .and_then(|(_, value)| value.to_str())
}

fn codes(resolved: &Resolved) -> Vec<&str> {
    resolved
        .notes
        .iter()
        .map(|note| note.code)
        .filter(|code| *code != "optional_missing")
        .collect()
}

const RX: Access = Access::READ.union(Access::EXECUTE);

#[test]
fn bash_sees_the_system_and_the_workspace_and_nothing_else() {
    let scene = Scene::new();
    let neighbour = scene.file("home/u/other/.env", 0o600);
    let policy = scene.resolve(&scene.request("bash")).policy;
    assert!(allows(&policy, "/usr/bin/env", RX));
    assert!(allows(&policy, scene.ws.join("new/file"), Access::all()));
    assert!(allows(&policy, "/etc/passwd", Access::READ));
    assert!(allows(&policy, "/tmp/x", Access::all()));
    for (path, access) in [
        (Path::new("/usr/bin/env"), Access::WRITE),
        (Path::new("/etc/shadow"), Access::READ),
        (Path::new("/etc/machine-id"), Access::READ),
        (Path::new("/var/tmp/x"), Access::WRITE),
        (Path::new("/root/.ssh/id_rsa"), Access::READ),
        (&scene.home.join("x"), Access::WRITE),
        (&neighbour, Access::READ),
        (&scene.base.join("x"), Access::WRITE),
    ] {
        assert!(
            !allows(&policy, path, access),
            "{access} on {}",
            path.display()
        );
    }
    assert_eq!(policy.cwd, scene.ws);
    assert_eq!(policy.network, Network::Off);
    assert_eq!(policy.empty_dirs, std::slice::from_ref(&scene.home));
}

#[test]
fn readonly_and_the_workers_give_what_they_say() {
    let scene = Scene::new();
    let readonly = scene.resolve(&scene.request("readonly")).policy;
    assert!(allows(&readonly, scene.ws.join("a"), RX));
    assert!(!allows(&readonly, scene.ws.join("a"), Access::WRITE));
    let tools = scene.resolve(&scene.request("tools")).policy;
    assert!(allows(
        &tools,
        scene.ws.join("a"),
        Access::READ | Access::WRITE
    ));
    assert!(!allows(&tools, scene.ws.join("a"), Access::EXECUTE));
    assert!(!allows(&tools, "/usr/bin/env", Access::EXECUTE));
    assert!(!allows(&tools, "/bin/sh", Access::READ));
    assert_eq!(env(&tools, "PATH"), None);
    let worker = scene.resolve(&scene.request("tools-readonly")).policy;
    assert!(allows(&worker, scene.ws.join("a"), Access::READ));
    assert!(!allows(&worker, scene.ws.join("a"), Access::WRITE));
}

#[test]
fn the_systems_own_links_exist_inside() {
    let scene = Scene::new();
    let policy = scene.resolve(&scene.request("base")).policy;
    for name in ["/bin", "/lib", "/lib64", "/sbin"] {
        let name = Path::new(name);
        let Ok(target) = name.read_link() else {
            continue;
        };
        assert!(
            policy
                .links
                .iter()
                .any(|link| link.path == name && link.target == target),
            "{}",
            name.display()
        );
        assert!(policy.grants.iter().all(|grant| grant.path != name));
    }
    // Links inside a granted folder are there by themselves.
    assert!(
        policy
            .links
            .iter()
            .all(|link| !link.path.starts_with("/usr/"))
    );
}

#[test]
fn grants_are_canonical_ordered_and_carry_the_identity_of_the_object() {
    use std::os::unix::fs::MetadataExt;
    let scene = Scene::new();
    let real = scene.dir("data/real");
    symlink("real", scene.base.join("data/name")).expect("link");
    let mut request =
        scene.profile("[[grant]]\npath = \"${WORKSPACE}\"\naccess = \"read\"\nreason = \"\"\n");
    request.allow = vec![(Access::READ, scene.base.join("data/name"))];
    let policy = scene.resolve(&request).policy;
    let grant = policy.grant_for(&real).expect("granted");
    let meta = fs::metadata(&real).expect("stat");
    assert_eq!(
        (grant.path.as_path(), grant.dev, grant.ino),
        (real.as_path(), meta.dev(), meta.ino())
    );
    assert_eq!(
        policy.links,
        [crate::policy::Link {
            path: scene.base.join("data/name"),
            target: "real".into(),
        }]
    );
    let paths: Vec<_> = policy.grants.iter().map(|grant| &grant.path).collect();
    assert!(paths.is_sorted());
}

#[test]
fn nested_grants_unite_and_what_adds_nothing_is_dropped() {
    let scene = Scene::new();
    scene.dir("home/u/ws/sub/deep");
    scene.file("home/u/ws/run", 0o755);
    let policy = scene
        .resolve(&scene.profile(
            "[[grant]]\npath = \"${WORKSPACE}\"\naccess = \"read+write\"\nreason = \"\"\n\
             [[grant]]\npath = \"${WORKSPACE}/sub\"\naccess = \"read\"\nreason = \"\"\n\
             [[grant]]\npath = \"${WORKSPACE}/run\"\naccess = \"execute\"\nreason = \"\"\n\
             [[grant]]\npath = \"${WORKSPACE}/run\"\naccess = \"read\"\nreason = \"\"\n",
        ))
        .policy;
    let grants: Vec<_> = policy
        .grants
        .iter()
        .map(|grant| (grant.path.clone(), grant.access))
        .collect();
    assert_eq!(
        grants,
        [
            (scene.ws.clone(), Access::READ | Access::WRITE),
            (scene.ws.join("run"), Access::all()),
        ]
    );
    assert!(allows(&policy, scene.ws.join("sub/deep/x"), Access::WRITE));
}

#[test]
fn what_no_policy_may_hold_is_refused() {
    let scene = Scene::new();
    scene.file("home/u/.ssh/id_rsa", 0o600);
    symlink(scene.home.join(".ssh"), scene.base.join("innocent")).expect("link");
    let base = scene.base.display();
    for path in [
        "/",
        "${HOME}",
        "/proc",
        "${HOME}/.ssh",
        "${HOME}/.ssh/id_rsa",
    ] {
        let error = scene.error(&scene.profile(&format!(
            "[[grant]]\npath = \"{path}\"\naccess = \"read\"\nreason = \"\"\n"
        )));
        assert_eq!(error.code(), "profile_grant_refused", "{path}: {error}");
        assert!(error.to_string().contains("t.toml:2: "), "{error}");
    }
    let link = scene.profile(&format!(
        "[[grant]]\npath = \"{base}/innocent\"\naccess = \"read\"\nreason = \"\"\n"
    ));
    assert_eq!(scene.error(&link).code(), "profile_grant_refused");
    let above = scene.profile(&format!(
        "[[grant]]\npath = \"{base}/home\"\naccess = \"read\"\nreason = \"\"\n"
    ));
    assert!(
        scene
            .error(&above)
            .to_string()
            .contains("holds the home directory")
    );
    let missing =
        scene.profile("[[grant]]\npath = \"/no/such\"\naccess = \"read\"\nreason = \"\"\n");
    assert_eq!(scene.error(&missing).code(), "profile_path_missing");
}

#[test]
fn a_person_opens_a_secret_only_by_its_exact_name() {
    let scene = Scene::new();
    let key = scene.file("home/u/.ssh/id_rsa", 0o600);
    let hosts = scene.file("home/u/.config/gh/hosts.yml", 0o600);
    let plain = scene.file("home/u/.config/app/settings", 0o600);
    let mut request = scene.request("base");
    request.allow = vec![(Access::READ, scene.home.join(".config"))];
    let policy = scene.resolve(&request).policy;
    assert!(allows(&policy, &plain, Access::READ));
    assert!(!allows(&policy, &hosts, Access::READ));
    assert!(!allows(&policy, &key, Access::READ));

    request.allow = vec![(Access::READ, key.clone())];
    let policy = scene.resolve(&request).policy;
    assert!(allows(&policy, &key, Access::READ));
    assert!(!allows(
        &policy,
        scene.home.join(".ssh/other"),
        Access::READ
    ));

    for refused in [
        scene.home.clone(),
        scene.base.clone(),
        "/".into(),
        "/proc/1".into(),
    ] {
        request.allow = vec![(Access::READ, refused)];
        assert_eq!(scene.error(&request).code(), "profile_grant_refused");
    }
}

#[test]
fn secrets_that_the_environment_moved_are_known() {
    let scene = Scene::new();
    let moved = scene.file("home/u/ws/.secrets/kube", 0o600);
    let request = scene.request("bash");
    let mut host = scene.host(&[]);
    assert!(allows(
        &scene.resolve_on(&request, &host).policy,
        &moved,
        Access::READ
    ));
    host.env.push((
        "KUBECONFIG".into(),
        format!("/none:{}", moved.display()).into(),
    ));
    assert!(!allows(
        &scene.resolve_on(&request, &host).policy,
        &moved,
        Access::READ
    ));
}

#[test]
fn a_workspace_that_gives_away_the_host_is_refused() {
    let scene = Scene::new();
    scene.dir("home/u/.aws/work");
    let file = scene.file("home/u/file", 0o644);
    let mut request = scene.request("bash");
    for (path, part) in [
        (PathBuf::from("/"), "the whole file system"),
        (scene.home.clone(), "is the home directory"),
        (scene.base.clone(), "holds the home directory"),
        (scene.home.join(".aws/work"), "holds secrets"),
        ("/etc".into(), "belongs to the system"),
        ("/proc/self".into(), "belongs to the system"),
        ("/usr".into(), "belongs to the system"),
        (file, "is no folder"),
        (scene.home.join("none"), "cannot be followed"),
        ("ws".into(), "not absolute"),
    ] {
        request.workspace = Some(path);
        let error = scene.error(&request);
        assert_eq!(error.code(), "workspace_refused");
        assert!(error.to_string().contains(part), "{error}");
    }
    request.workspace = None;
    assert_eq!(scene.error(&request).code(), "workspace_needed");
    // A profile that speaks of none needs none, and is not stopped by one.
    request.profile = "base".to_owned();
    request.workspace = Some(scene.home.clone());
    assert_eq!(scene.resolve(&request).policy.workspace, None);
}

#[test]
fn a_workspace_spelled_through_a_link_works_under_both_names() {
    let scene = Scene::new();
    symlink(&scene.ws, scene.home.join("alias")).expect("link");
    let mut request = scene.request("bash");
    request.workspace = Some(scene.home.join("alias"));
    let policy = scene.resolve(&request).policy;
    assert_eq!(policy.workspace.as_deref(), Some(scene.ws.as_path()));
    assert!(
        policy
            .links
            .iter()
            .any(|link| link.path == scene.home.join("alias"))
    );
}

#[test]
fn private_folders_stand_in_the_home_and_last_where_a_private_home_is_given() {
    let scene = Scene::new();
    let real = scene.file("home/u/.cache/secret", 0o600);
    let mut request = scene.request("bash");
    let policy = scene.resolve(&request).policy;
    assert!(policy.scratch.contains(&scene.home.join(".cache")));
    assert!(!allows(&policy, scene.home.join("direct"), Access::WRITE));

    request.private_home = Some(scene.base.join("state/home"));
    let policy = scene.resolve(&request).policy;
    let grant = policy.grant_for(&real).expect("granted");
    assert_eq!(grant.path, scene.home.join(".cache"));
    assert_eq!(grant.source, Some(scene.base.join("state/home/.cache")));
    assert!(!policy.scratch.contains(&scene.home.join(".cache")));
    let mode = fs::metadata(scene.base.join("state/home/.cache"))
        .expect("made")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o700);

    // What a person names is the real one.
    request.allow = vec![(Access::READ, scene.home.join(".cache"))];
    let policy = scene.resolve(&request).policy;
    let grant = policy.grant_for(&real).expect("granted");
    assert_eq!((grant.source.as_ref(), grant.access), (None, Access::READ));
}

#[test]
fn a_private_folder_hides_a_link_of_the_same_name() {
    let scene = Scene::new();
    scene.file("dotfiles/config/git/ignore", 0o644);
    symlink(
        scene.base.join("dotfiles/config"),
        scene.home.join(".config"),
    )
    .expect("link");
    let mut request = scene.request("bash");
    request.toolchains = vec!["git".to_owned()];
    request.private_home = Some(scene.base.join("state/home"));
    let policy = scene.resolve(&request).policy;
    assert!(
        policy
            .links
            .iter()
            .all(|link| link.path != scene.home.join(".config"))
    );
    let grant = policy
        .grant_for(&scene.home.join(".config/git/ignore"))
        .expect("granted");
    assert_eq!(
        grant.source,
        Some(scene.base.join("dotfiles/config/git/ignore"))
    );
    assert_eq!(grant.access, Access::READ);
    assert!(scene.base.join("state/home/.config/git/ignore").is_file());
}

#[test]
fn git_metadata_is_protected_and_only_where_it_can_be_written() {
    let scene = Scene::new();
    for dir in ["objects", "refs", "hooks", "info", "modules/lib/hooks"] {
        scene.dir(&format!("home/u/ws/.git/{dir}"));
    }
    scene.file("home/u/ws/.git/HEAD", 0o644);
    scene.file("home/u/ws/.git/config", 0o644);
    scene.file("home/u/ws/.git/modules/lib/HEAD", 0o644);
    scene.file("home/u/ws/.envrc", 0o644);
    let git = scene.ws.join(".git");
    let policy = scene.resolve(&scene.request("bash")).policy;
    for path in [
        "config",
        "hooks/pre-commit",
        "info/attributes",
        "modules/lib/hooks/x",
    ] {
        assert!(!allows(&policy, git.join(path), Access::WRITE), "{path}");
        assert!(allows(&policy, git.join(path), Access::READ), "{path}");
    }
    for path in [
        "index.lock",
        "objects/aa/bb",
        "refs/heads/x",
        "modules/lib/index",
    ] {
        assert!(allows(&policy, git.join(path), Access::WRITE), "{path}");
    }
    let pin = policy
        .protect
        .iter()
        .find(|protect| protect.path == git)
        .expect("pinned");
    assert!(pin.pin_only);
    assert!(!allows(&policy, scene.ws.join(".envrc"), Access::WRITE));
    let readonly = scene.resolve(&scene.request("readonly")).policy;
    assert_eq!(readonly.protect, []);
    let tools = scene.resolve(&scene.request("tools")).policy;
    assert!(!allows(&tools, git.join("index.lock"), Access::WRITE));
}

#[test]
fn toolchains_in_the_home_run_and_their_secrets_stay() {
    let scene = Scene::new();
    let bin = scene.dir("home/u/.cargo/bin");
    scene.file("home/u/.cargo/bin/rustup", 0o755);
    symlink("rustup", bin.join("cargo")).expect("link");
    let token = scene.file("home/u/.cargo/credentials.toml", 0o600);
    let krate = scene.file("home/u/.cargo/registry/src/x/lib.rs", 0o644);
    scene.file("home/u/.rustup/toolchains/stable/bin/cargo", 0o755);
    let shims = scene.dir("home/u/.pyenv/shims");
    scene.file("home/u/.pyenv/versions/3.12/bin/python3", 0o755);
    let request = scene.request("bash");
    let host = scene.host(&[&bin, &shims]);
    let resolved = scene.resolve_on(&request, &host);
    let policy = &resolved.policy;
    assert_eq!(resolved.toolchains, ["cargo", "python"]);
    assert!(allows(policy, bin.join("cargo"), RX));
    assert!(allows(
        policy,
        scene.home.join(".rustup/toolchains/stable/bin/cargo"),
        RX
    ));
    assert!(allows(
        policy,
        scene.home.join(".pyenv/versions/3.12/bin/python3"),
        RX
    ));
    assert!(allows(policy, &krate, Access::READ));
    assert!(!allows(policy, &krate, Access::WRITE));
    assert!(!allows(policy, bin.join("cargo"), Access::WRITE));
    // The private ~/.cargo has no token in it; the real one is not seen.
    assert!(policy.grant_for(&token).is_none());
    assert_eq!(env(policy, "CARGO_NET_OFFLINE"), Some("true"));
    let path = format!("{}:{}", bin.display(), shims.display());
    assert_eq!(env(policy, "PATH"), Some(path.as_str()));

    let mut open = request.clone();
    open.network = Some(Network::Open);
    let policy = scene.resolve_on(&open, &host).policy;
    assert!(policy.grant_for(&krate).is_none());
    assert_eq!(env(&policy, "CARGO_NET_OFFLINE"), None);
}

#[test]
fn folders_of_path_without_an_owner_are_granted_by_their_name() {
    let scene = Scene::new();
    let bin = scene.dir("home/u/tools/bin");
    let stuff = scene.dir("home/u/stuff");
    let outside = scene.dir("opt/sbin");
    let venv = scene.dir("home/u/envs/x/bin");
    scene.file("home/u/envs/x/pyvenv.cfg", 0o644);
    let library = scene.file("home/u/envs/x/lib/y.py", 0o644);
    let host = scene.host(&[
        &bin,
        &stuff,
        &outside,
        &venv,
        Path::new("relative"),
        Path::new("/none"),
    ]);
    let resolved = scene.resolve_on(&scene.request("bash"), &host);
    let policy = &resolved.policy;
    assert!(allows(policy, bin.join("x"), RX));
    assert!(allows(policy, &library, RX));
    assert!(!allows(policy, stuff.join("x"), Access::READ));
    assert_eq!(codes(&resolved), ["path_folder_skipped"]);
    let path = format!("{}:{}:{}", bin.display(), outside.display(), venv.display());
    assert_eq!(env(policy, "PATH"), Some(path.as_str()));
    // Without `auto`, only what is granted otherwise is kept.
    assert_eq!(
        env(
            &scene.resolve_on(&scene.request("readonly"), &host).policy,
            "PATH"
        ),
        None
    );
}

#[test]
fn a_program_that_a_link_on_path_names_runs() {
    let scene = Scene::new();
    let bin = scene.dir("home/u/.local/bin");
    let program = scene.file("home/u/.local/share/app/versions/1/app", 0o755);
    let plain = scene.file("home/u/.local/share/app/data", 0o644);
    let key = scene.file("home/u/.ssh/run", 0o755);
    symlink(&program, bin.join("app")).expect("link");
    symlink(&plain, bin.join("data")).expect("link");
    symlink(&key, bin.join("key")).expect("link");
    let resolved = scene.resolve_on(&scene.request("bash"), &scene.host(&[&bin]));
    let policy = &resolved.policy;
    assert!(allows(policy, &program, RX));
    assert!(!allows(policy, &key, Access::READ));
    assert_eq!(policy.grant_for(&plain), None);
    assert_eq!(codes(&resolved), ["grant_refused"]);
}

#[test]
fn what_a_jailed_call_could_have_planted_leads_to_no_grant() {
    let scene = Scene::new();
    let secret = scene.file("home/u/private/run", 0o755);
    let bin = scene.dir("home/u/ws/.venv/bin");
    symlink(&secret, bin.join("tool")).expect("link");
    symlink(scene.dir("home/u/private/bin"), scene.ws.join("bin")).expect("link");
    let host = scene.host(&[&bin, &scene.ws.join("bin")]);
    let resolved = scene.resolve_on(&scene.request("bash"), &host);
    let policy = &resolved.policy;
    assert!(!allows(policy, &secret, Access::READ));
    assert!(!allows(
        policy,
        scene.home.join("private/bin/x"),
        Access::READ
    ));
    assert_eq!(env(policy, "PATH"), Some(bin.to_str().expect("utf-8")));
    assert_eq!(codes(&resolved), ["path_folder_skipped"]);
}

#[test]
fn settings_that_mention_a_token_are_not_shown() {
    let scene = Scene::new();
    let config = scene.file("home/u/.gitconfig", 0o644);
    fs::write(&config, "[user]\n\tname = U\n").expect("write");
    let mut request = scene.request("bash");
    request.toolchains = vec!["git".to_owned()];
    assert!(allows(
        &scene.resolve(&request).policy,
        &config,
        Access::READ
    ));
    fs::write(&config, "[http]\n\textraHeader = \"Authorization: x\"\n").expect("write");
    let resolved = scene.resolve(&request);
    assert!(!allows(&resolved.policy, &config, Access::READ));
    assert_eq!(codes(&resolved), ["secret_suspected"]);
}

#[test]
fn what_a_person_passes_is_passed_and_unknown_names_are_errors() {
    let scene = Scene::new();
    let mut request = scene.request("base");
    request.env = vec![("MY_TOKEN".into(), "t".into())];
    let mut host = scene.host(&[
        Path::new("/usr/bin"),
        Path::new("/bin"),
        Path::new("/usr/bin"),
    ]);
    host.env = vec![
        ("SECRET_TOKEN".into(), "s".into()),
        ("LC_TIME".into(), "C".into()),
        ("SHELL".into(), "/no/such/shell".into()),
    ];
    let policy = scene.resolve_on(&request, &host).policy;
    assert_eq!(env(&policy, "MY_TOKEN"), Some("t"));
    assert_eq!(env(&policy, "SECRET_TOKEN"), None);
    assert_eq!(env(&policy, "LC_TIME"), Some("C"));
    assert_eq!(env(&policy, "TMPDIR"), Some("/tmp"));
    assert_eq!(env(&policy, "HOME"), scene.home.to_str());
    assert_eq!(env(&policy, "USER"), Some("u"));
    assert_eq!(env(&policy, "PATH"), Some("/usr/bin:/bin"));
    assert_eq!(env(&policy, "SHELL"), Some("/bin/sh"));
    assert!(!format!("{host:?}").contains("\"s\""));

    request.toolchains = vec!["cobol".to_owned()];
    assert_eq!(scene.error(&request).code(), "toolchain_unknown");
}

#[test]
fn the_programs_own_grants_may_stand_anywhere() {
    let scene = Scene::new();
    let binary = scene.file("opt/delegate", 0o755);
    let mut request = scene.request("tools");
    request.extra = vec![
        ExtraGrant {
            path_inside: binary.clone(),
            host: binary.clone(),
            access: RX,
        },
        ExtraGrant {
            path_inside: "/delegate".into(),
            host: binary.clone(),
            access: RX,
        },
    ];
    let policy = scene.resolve(&request).policy;
    assert!(allows(&policy, &binary, RX));
    let grant = policy.grant_for(Path::new("/delegate")).expect("granted");
    assert_eq!(grant.host_path(), binary);
}

#[test]
fn a_home_of_slash_is_replaced() {
    let scene = Scene::new();
    let mut host = scene.host(&[]);
    host.home = "/".into();
    let policy = resolve(&scene.set(), &scene.request("base"), &host).expect("resolves");
    assert_eq!(policy.empty_dirs, [PathBuf::from("/home/user")]);
}

proptest::proptest! {
    #![proptest_config(proptest::test_runner::Config::with_cases(48))]
    /// Whatever is granted, a path has the sum of what its ancestors have.
    #[test]
    fn grants_add_up(granted in proptest::collection::vec((0usize..7, 1u8..8), 1..6), asked in 0usize..7) {
        let scene = Scene::new();
        let names = ["a", "a/b", "a/b/c", "a/d", "e", "e/f", "e/f/g"];
        for name in names {
            scene.dir(name);
        }
        let mut request = scene.request("base");
        let mut want = Access::empty();
        for (at, bits) in granted {
            // A person's words: writing and executing include reading.
            let access = Access::from_bits_truncate(bits) | Access::READ;
            request.allow.push((access, scene.base.join(names[at])));
            if Path::new(names[asked]).starts_with(names[at]) {
                want |= access;
            }
        }
        let policy = scene.resolve(&request).policy;
        let path = scene.base.join(names[asked]).join("x");
        proptest::prop_assert_eq!(policy.judge(&path, Access::READ).given, want);
        let located = crate::locate::locate(&policy, &path);
        proptest::prop_assert_eq!(located, path);
    }
}
