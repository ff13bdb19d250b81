use super::*;
use std::fs;
use std::io::Read;
use std::os::unix::fs::symlink;

struct Tree {
    _dir: tempfile::TempDir,
    base: PathBuf,
}

impl Tree {
    /// `w` is the root; `out` beside it holds a secret.
    fn new() -> Tree {
        let dir = tempfile::tempdir().expect("tempdir");
        let base = fs::canonicalize(dir.path()).expect("canonical");
        fs::create_dir_all(base.join("w/a/b")).expect("mkdir");
        fs::create_dir(base.join("out")).expect("mkdir");
        fs::write(base.join("w/a/b/f.txt"), "inside").expect("write");
        fs::write(base.join("out/secret"), "outside").expect("write");
        Tree { _dir: dir, base }
    }

    fn root(&self) -> Root {
        Root::open(&self.base.join("w")).expect("root")
    }

    fn link(&self, target: impl AsRef<Path>, name: &str) {
        symlink(target, self.base.join("w").join(name)).expect("link");
    }
}

fn kind(result: Result<Place, PathError>) -> String {
    match result {
        Ok(place) => match place.what {
            What::File(_) => format!("file {}", place.rel.display()),
            What::Dir(_) => format!("dir {}", place.rel.display()),
            What::Special(_) => format!("special {}", place.rel.display()),
            What::Missing(above) => format!("missing {} ({})", place.rel.display(), above.len()),
        },
        Err(PathError::Outside { .. }) => "outside".to_owned(),
        Err(PathError::NotAFolder { at }) => format!("no folder {}", at.display()),
        Err(PathError::Loop { .. }) => "loop".to_owned(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn plain_paths_lead_where_they_say() {
    let tree = Tree::new();
    let root = tree.root();
    let inside = tree.base.join("w/a/b/f.txt");
    assert_eq!(kind(root.find("a/b/f.txt")), "file a/b/f.txt");
    assert_eq!(kind(root.find("./a//b/./f.txt")), "file a/b/f.txt");
    assert_eq!(kind(root.find("a/../a/b/f.txt")), "file a/b/f.txt");
    assert_eq!(
        kind(root.find(inside.to_str().expect("utf-8"))),
        "file a/b/f.txt"
    );
    assert_eq!(kind(root.find("a")), "dir a");
    assert_eq!(kind(root.find("a/b/")), "dir a/b");
    assert_eq!(kind(root.find(".")), "dir ");
    assert_eq!(kind(root.find("a/b/..")), "dir a");
    assert_eq!(kind(root.find("new")), "missing new (0)");
    assert_eq!(kind(root.find("x/y/new")), "missing x/y/new (2)");
    assert_eq!(kind(root.find("x/../new")), "missing new (0)");
    assert_eq!(kind(root.find("a/b/f.txt/g")), "no folder a/b/f.txt");
    assert_eq!(kind(root.find("~/x")), "missing ~/x (1)");
}

#[test]
fn what_leads_out_is_refused_and_its_twin_inside_is_not() {
    let tree = Tree::new();
    let root = tree.root();
    let secret = tree.base.join("out/secret");
    tree.link(&secret, "abs");
    tree.link("../out/secret", "rel");
    tree.link("../out", "dir");
    tree.link("a/../../out", "dots");
    tree.link(tree.base.join("w/a"), "abs_in");
    tree.link("a/b", "rel_in");
    tree.link("a/b/f.txt", "file_in");
    for asked in [
        "../out/secret",
        "..",
        "a/../..",
        "/",
        "/etc/passwd",
        "abs",
        "rel",
        "dir",
        "dir/secret",
        "dots/secret",
        "x/../../out/secret",
    ] {
        assert_eq!(kind(root.find(asked)), "outside", "{asked}");
    }
    let same_start = format!("{}-other/x", tree.base.join("w").display());
    assert_eq!(kind(root.find(&same_start)), "outside");
    let climbing = format!("{}/../out/secret", tree.base.join("w").display());
    assert_eq!(kind(root.find(&climbing)), "outside");

    assert_eq!(kind(root.find("abs_in/b/f.txt")), "file a/b/f.txt");
    assert_eq!(kind(root.find("rel_in/f.txt")), "file a/b/f.txt");
    assert_eq!(kind(root.find("file_in")), "file a/b/f.txt");
}

#[test]
fn odd_strings_links_and_files_have_their_own_answers() {
    let tree = Tree::new();
    let root = tree.root();
    assert_eq!(kind(root.find("")), "the path is empty");
    assert_eq!(kind(root.find("a\0b")), "the path holds a NUL character");
    tree.link("loop2", "loop1");
    tree.link("loop1", "loop2");
    assert_eq!(kind(root.find("loop1")), "loop");
    tree.link("nowhere", "dangling");
    assert_eq!(kind(root.find("dangling")), "missing nowhere (0)");
    let fifo = tree.base.join("w/fifo");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &fifo,
        FileType::Fifo,
        Mode::from_raw_mode(0o600),
        0,
    )
    .expect("fifo");
    assert_eq!(kind(root.find("fifo")), "special fifo");
    // Exactly: a link is what it is.
    tree.link("a/b", "rel_in");
    assert_eq!(kind(root.find_exact(Path::new("rel_in"))), "special rel_in");
    assert_eq!(
        kind(root.find_exact(Path::new("rel_in/f.txt"))),
        "no folder rel_in"
    );
    assert_eq!(
        kind(root.find_exact(Path::new("a/b/f.txt"))),
        "file a/b/f.txt"
    );
}

#[test]
fn a_file_replaced_after_the_walk_is_not_opened() {
    let tree = Tree::new();
    let root = tree.root();
    let place = root.find("a/b/f.txt").expect("find");
    let mut text = String::new();
    root.read(&place)
        .expect("open")
        .read_to_string(&mut text)
        .expect("read");
    assert_eq!(text, "inside");

    let path = tree.base.join("w/a/b/f.txt");
    fs::rename(&path, tree.base.join("w/kept")).expect("rename");
    symlink(tree.base.join("out/secret"), &path).expect("link");
    assert!(root.read(&place).is_err());
    fs::remove_file(&path).expect("remove");
    fs::write(&path, "another").expect("write");
    assert!(root.read(&place).is_err());
}

#[test]
fn a_folder_swapped_for_a_link_out_after_the_walk_leads_to_the_old_folder() {
    let tree = Tree::new();
    let root = tree.root();
    let place = root.find("a/b/new.txt").expect("find");
    fs::rename(tree.base.join("w/a/b"), tree.base.join("w/moved")).expect("rename");
    symlink(tree.base.join("out"), tree.base.join("w/a/b")).expect("link");
    let folder = root.make_parents(&place).expect("parents");
    let moved = Root::open(&tree.base.join("w/moved")).expect("moved");
    let found = rustix::fs::fstat(&folder).expect("stat");
    assert_eq!((found.st_dev, found.st_ino), moved.identity());
    assert_eq!(kind(root.find("a/b/new.txt")), "outside");
}

#[test]
fn missing_parents_are_made_and_the_neighbours_are_listed() {
    let tree = Tree::new();
    let root = tree.root();
    let place = root.find("a/x/y/new.txt").expect("find");
    let (above, names) = root.list_above(&place).expect("list");
    assert_eq!(
        (above.as_path(), names),
        (Path::new("a"), vec!["b/".to_owned()])
    );
    root.make_parents(&place).expect("parents");
    assert!(tree.base.join("w/a/x/y").is_dir());
    let dir = root.find("a").expect("find");
    assert_eq!(root.list(&dir).expect("list"), ["b/", "x/"]);
    let top = root.find(".").expect("find");
    assert_eq!(root.list(&top).expect("list"), ["a/"]);
}
