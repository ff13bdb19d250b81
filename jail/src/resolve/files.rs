//! Looking at the host for a grant that is written with a `*`, or that holds
//! only while a file does not mention something.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Files longer than this are not searched for words; they are no settings.
const MOST_SEARCHED: u64 = 1 << 20;

/// A path whose last component may hold `*`: the entries that match, or the
/// path itself when it holds none.
pub(crate) fn globbed(path: &Path) -> Vec<PathBuf> {
    let (Some(parent), Some(pattern)) = (
        path.parent(),
        path.file_name().and_then(|name| name.to_str()),
    ) else {
        return vec![path.to_path_buf()];
    };
    if !pattern.contains('*') {
        return vec![path.to_path_buf()];
    }
    let Ok(entries) = fs::read_dir(parent) else {
        return Vec::new();
    };
    let mut paths: Vec<PathBuf> = entries
        .flatten()
        .filter(|entry| {
            entry
                .file_name()
                .to_str()
                .is_some_and(|name| matches(pattern, name))
        })
        .map(|entry| entry.path())
        .collect();
    paths.sort();
    paths
}

/// Whether `name` matches `pattern`, in which `*` stands for any text.
pub(crate) fn matches(pattern: &str, name: &str) -> bool {
    let Some((head, tail)) = pattern.split_once('*') else {
        return pattern == name;
    };
    let Some(rest) = name.strip_prefix(head) else {
        return false;
    };
    (0..=rest.len())
        .filter(|at| rest.is_char_boundary(*at))
        .any(|at| matches(tail, &rest[at..]))
}

/// The first of `words` that the file holds, letter case aside. What cannot be
/// searched is treated as if it held the first.
pub(crate) fn mentions(path: &Path, words: &[String]) -> Option<String> {
    let first = words.first()?;
    let meta = fs::metadata(path).ok()?;
    if !meta.is_file() {
        return None;
    }
    if meta.len() > MOST_SEARCHED {
        return Some(first.clone());
    }
    let mut bytes = Vec::new();
    let read =
        fs::File::open(path).and_then(|file| file.take(MOST_SEARCHED).read_to_end(&mut bytes));
    if read.is_err() {
        return Some(first.clone());
    }
    let text = String::from_utf8_lossy(&bytes).to_lowercase();
    words
        .iter()
        .find(|word| text.contains(word.to_lowercase().as_str()))
        .cloned()
}
