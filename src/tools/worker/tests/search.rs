//! Glob and Grep.

use super::*;

#[test]
fn glob_is_sorted_before_it_is_cut_and_follows_ignore_rules() {
    let mut house = House::new();
    for at in (0..600).rev() {
        house.put(&format!("many/{at:03}.txt"), "");
    }
    for path in [
        ".git/config",
        ".gitignore",
        "target/x.rs",
        "src/a.rs",
        "src/deep/b.rs",
        ".github/c.rs",
    ] {
        house.put(path, "/target\n");
    }
    symlink("../out/secret", house.path("src/out.rs")).expect("link");
    symlink("a.rs", house.path("src/link.rs")).expect("link");
    symlink("../out", house.path("src/dir")).expect("link");
    let text = house.ok("Glob", json!({"pattern": "*.txt"}));
    assert_eq!(text.lines().count(), 501);
    assert!(text.starts_with("many/000.txt\nmany/001.txt\n"));
    assert!(text.ends_with("[limit reached: the first 500 of 600 files; narrow the pattern]"));
    let rust = ".github/c.rs\nsrc/a.rs\nsrc/deep/b.rs\nsrc/link.rs";
    assert_eq!(house.ok("Glob", json!({"pattern": "**/*.rs"})), rust);
    assert_eq!(
        house.ok("Glob", json!({"pattern": "src/*.rs"})),
        "src/a.rs\nsrc/link.rs"
    );
    assert_eq!(
        house.ok("Glob", json!({"pattern": "*.rs", "path": "src/deep"})),
        "src/deep/b.rs"
    );
    assert_eq!(
        house.ok("Glob", json!({"pattern": "*", "path": "target"})),
        "target/x.rs"
    );
    assert_eq!(
        house.ok("Glob", json!({"pattern": "*.zig"})),
        "No files match *.zig"
    );
    assert!(
        !house
            .ok("Glob", json!({"pattern": "**/*"}))
            .contains(".git/config")
    );
    house.fails("Glob", json!({"pattern": "a[b"}));
    house.fails("Glob", json!({"pattern": "*", "path": "src/a.rs"}));
}

#[test]
fn grep_shows_lines_files_counts_and_context() {
    let mut house = House::new();
    house.put("list.txt", "v12.rs\nvd+.rs\n");
    house.put("src/a.py", "one\nTwo\nthree\ntwo\r\nend\n");
    house.put("src/b.rs", "two\n");
    house.put(".gitignore", "ignored\n");
    house.put("ignored", "two\n");
    house.put(".git/x", "two\n");
    house.put("bin", b"two\0");
    symlink("../out/secret", house.path("link")).expect("link");
    let grep = |house: &mut House, args: Value| house.ok("Grep", args);
    assert_eq!(
        grep(
            &mut house,
            json!({"pattern": r"v\d+\.rs", "path": ".", "output_mode": "content"})
        ),
        "list.txt:1: v12.rs"
    );
    assert_eq!(
        grep(&mut house, json!({"pattern": "two$"})),
        "src/a.py:4: two\nsrc/b.rs:1: two"
    );
    assert_eq!(
        grep(
            &mut house,
            json!({"pattern": "two", "-i": true, "path": "src/a.py", "context": 1})
        ),
        "src/a.py-1- one\nsrc/a.py:2: Two\nsrc/a.py-3- three\nsrc/a.py:4: two\nsrc/a.py-5- end"
    );
    assert_eq!(
        grep(
            &mut house,
            json!({"pattern": "one|end", "-A": 0, "-B": 1, "-n": false})
        ),
        "src/a.py: one\n--\nsrc/a.py- two\nsrc/a.py: end"
    );
    assert_eq!(
        grep(
            &mut house,
            json!({"pattern": "two", "output_mode": "files_with_matches"})
        ),
        "src/a.py\nsrc/b.rs"
    );
    assert_eq!(
        grep(
            &mut house,
            json!({"pattern": "(?i)two", "output_mode": "count"})
        ),
        "src/a.py:2\nsrc/b.rs:1"
    );
    assert_eq!(
        grep(&mut house, json!({"pattern": "two", "glob": "*.rs"})),
        "src/b.rs:1: two"
    );
    assert_eq!(
        grep(&mut house, json!({"pattern": "two", "type": "py"})),
        "src/a.py:4: two"
    );
    assert_eq!(
        grep(
            &mut house,
            json!({"pattern": "one.*three", "multiline": true})
        ),
        "src/a.py:1: one\nsrc/a.py:2: Two\nsrc/a.py:3: three"
    );
    assert_eq!(
        grep(&mut house, json!({"pattern": "outside"})),
        "No matches"
    );
    for bad in ["(?=x)", "(", r"a\nb"] {
        let text = house.fails("Grep", json!({"pattern": bad}));
        assert!(text.contains("no valid regular expression"), "{text}");
    }
    house.fails("Grep", json!({"pattern": "x", "type": "klingon"}));
    house.fails("Grep", json!({"pattern": "x", "path": "nope"}));
}

#[test]
fn grep_keeps_its_limits_and_the_first_by_path() {
    let mut house = House::new();
    for at in 0..50 {
        house.put(&format!("f{at:02}"), "hit\n".repeat(5));
    }
    let text = house.ok("Grep", json!({"pattern": "hit", "head_limit": 12}));
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 13, "{text}");
    assert_eq!((lines[0], lines[11]), ("f00:1: hit", "f02:2: hit"));
    assert!(lines[12].starts_with("[limit reached"));
    let args = json!({"pattern": "hit", "head_limit": 3, "output_mode": "files_with_matches"});
    assert!(house.ok("Grep", args).starts_with("f00\nf01\nf02\n[limit"));
    let all = json!({"pattern": "hit", "head_limit": 250});
    assert!(!house.ok("Grep", all).contains("limit reached"));

    house.put("long", format!("{}needle", "a".repeat(200_000)));
    let started = Instant::now();
    house.ok("Grep", json!({"pattern": "(a+)+$", "path": "long"}));
    assert!(started.elapsed() < Duration::from_secs(10));
    let text = house.ok("Grep", json!({"pattern": "needle"}));
    assert!(text.ends_with("[line cut, 200006 bytes]") && text.chars().count() < 2100);
    house.put("wide", "x".repeat(1500).as_str().to_owned() + "\n");
    house.put("wides", format!("{}\n", "y".repeat(1500)).repeat(200));
    let text = house.ok("Grep", json!({"pattern": "y", "head_limit": 1000}));
    assert!(text.chars().count() <= MAX_TEXT && text.contains("limit reached"));
}
