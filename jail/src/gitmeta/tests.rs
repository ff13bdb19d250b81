use std::fs;
use std::os::unix::fs::symlink;

use super::*;

/// A folder that looks like a git directory.
fn git_dir(path: &Path) {
    for dir in ["objects", "refs", "hooks", "info"] {
        fs::create_dir_all(path.join(dir)).expect("mkdir");
    }
    fs::write(path.join("HEAD"), "ref: refs/heads/main\n").expect("write");
    fs::write(path.join("config"), "[core]\n").expect("write");
}

/// `main` with a worktree `ws` beside it, as `git worktree add` makes them.
fn worktree() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().expect("tempdir");
    let base = dir.path().canonicalize().expect("canonical");
    git_dir(&base.join("main/.git"));
    let own = base.join("main/.git/worktrees/ws");
    fs::create_dir_all(&own).expect("mkdir");
    fs::create_dir(base.join("ws")).expect("mkdir");
    fs::write(own.join("commondir"), "../..\n").expect("write");
    fs::write(
        own.join("gitdir"),
        format!("{}\n", base.join("ws/.git").display()),
    )
    .expect("write");
    fs::write(base.join("ws/.git"), format!("gitdir: {}\n", own.display())).expect("write");
    (dir, base)
}

fn strange(workspace: &Path) -> String {
    match find(workspace) {
        GitMeta::Strange(why) => why,
        other => panic!("followed: {other:?}"),
    }
}

#[test]
fn a_plain_folder_and_none_at_all() {
    let dir = tempfile::tempdir().expect("tempdir");
    let base = dir.path().canonicalize().expect("canonical");
    assert_eq!(find(&base), GitMeta::None);
    git_dir(&base.join(".git"));
    assert_eq!(find(&base), GitMeta::Folder(base.join(".git")));
}

#[test]
fn a_worktree_is_followed_to_the_directory_it_shares() {
    let (_dir, base) = worktree();
    assert_eq!(
        find(&base.join("ws")),
        GitMeta::Worktree {
            own: base.join("main/.git/worktrees/ws"),
            common: base.join("main/.git"),
        }
    );
}

#[test]
fn a_pointer_to_another_repositorys_worktree_is_not_followed() {
    let (_dir, base) = worktree();
    fs::create_dir(base.join("evil")).expect("mkdir");
    fs::copy(base.join("ws/.git"), base.join("evil/.git")).expect("copy");
    assert!(strange(&base.join("evil")).contains("does not point back"));
}

#[test]
fn a_common_directory_that_was_made_up_is_not_followed() {
    // All of it inside the workspace, but `commondir` leads out.
    let dir = tempfile::tempdir().expect("tempdir");
    let base = dir.path().canonicalize().expect("canonical");
    let secret = base.join("secret");
    git_dir(&secret);
    let workspace = base.join("ws");
    let own = workspace.join("fake/worktrees/ws");
    fs::create_dir_all(&own).expect("mkdir");
    fs::write(own.join("commondir"), format!("{}\n", secret.display())).expect("write");
    fs::write(
        own.join("gitdir"),
        format!("{}\n", workspace.join(".git").display()),
    )
    .expect("write");
    fs::write(workspace.join(".git"), "gitdir: fake/worktrees/ws\n").expect("write");
    assert!(strange(&workspace).contains("is not below"));
}

#[test]
fn a_worktree_of_something_that_is_no_git_directory_is_not_followed() {
    let (_dir, base) = worktree();
    fs::remove_file(base.join("main/.git/HEAD")).expect("remove");
    assert!(strange(&base.join("ws")).contains("is no git directory"));
}

#[test]
fn a_submodule_is_followed_when_its_config_names_the_workspace() {
    let dir = tempfile::tempdir().expect("tempdir");
    let base = dir.path().canonicalize().expect("canonical");
    let own = base.join("super/.git/modules/lib");
    git_dir(&own);
    fs::create_dir_all(base.join("super/lib")).expect("mkdir");
    fs::write(own.join("config"), "[core]\n\tworktree = ../../../lib\n").expect("write");
    fs::write(base.join("super/lib/.git"), "gitdir: ../.git/modules/lib\n").expect("write");
    assert_eq!(
        find(&base.join("super/lib")),
        GitMeta::Submodule(own.clone())
    );

    fs::write(own.join("config"), "[core]\n\tworktree = ../../../other\n").expect("write");
    assert!(strange(&base.join("super/lib")).contains("does not point back"));
}

#[test]
fn garbage_links_and_huge_files_are_not_followed() {
    let dir = tempfile::tempdir().expect("tempdir");
    let base = dir.path().canonicalize().expect("canonical");
    let dot_git = base.join("ws/.git");
    fs::create_dir(base.join("ws")).expect("mkdir");
    fs::write(&dot_git, "hello").expect("write");
    assert!(strange(&base.join("ws")).contains("does not say gitdir"));
    fs::write(&dot_git, "x".repeat(10_000)).expect("write");
    assert!(strange(&base.join("ws")).contains("is no pointer file"));
    fs::write(&dot_git, "gitdir: /nowhere/at/all").expect("write");
    assert!(strange(&base.join("ws")).contains("cannot be followed"));
    fs::remove_file(&dot_git).expect("remove");
    git_dir(&base.join("other"));
    symlink("../other", &dot_git).expect("link");
    assert!(strange(&base.join("ws")).contains("outside the workspace"));
}
