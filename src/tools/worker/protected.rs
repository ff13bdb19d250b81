//! Names that file tools read but never write. Pure.

use std::path::Path;

/// Folders and files that steer version control, agents, editors or shells.
/// One list for components of either kind: a folder named `AGENTS.md` is as
/// odd as a file named `.git` (which a linked work tree has).
const NAMES: &[&str] = &[
    // Version control.
    ".git",
    ".hg",
    ".svn",
    // Agents and their servers.
    ".claude",
    ".codex",
    ".agents",
    ".deepseek-mcp",
    ".mcp.json",
    "agents.md",
    "claude.md",
    "codex.md",
    "gemini.md",
    ".cursor",
    ".gemini",
    // Run by a shell or an editor that merely comes by.
    ".envrc",
    ".vscode",
    ".idea",
    ".devcontainer",
    ".husky",
    // Shell start-up.
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".bash_aliases",
    ".profile",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".zlogin",
    ".zlogout",
    ".kshrc",
    ".mkshrc",
    ".cshrc",
    ".tcshrc",
    ".login",
    ".logout",
    ".inputrc",
    "config.fish",
];

/// The protected component of a path, as it is spelled there.
pub(super) fn protected(path: &Path) -> Option<String> {
    path.components()
        .map(|part| part.as_os_str().to_string_lossy())
        .find(|part| NAMES.contains(&folded(part).as_str()))
        .map(|part| part.into_owned())
}

/// A name as a file system that ignores case, ignorable characters or
/// trailing dots and spaces would see it: the check must not be looser than
/// the loosest of those.
fn folded(name: &str) -> String {
    let folded: String = name
        .chars()
        .filter(|c| !is_ignorable(*c))
        .flat_map(char::to_lowercase)
        // U+017F, the long s, is an s without case.
        .map(|c| if c == '\u{17f}' { 's' } else { c })
        .collect();
    folded.trim_end_matches(['.', ' ']).to_owned()
}

/// Characters that HFS+ drops from names.
fn is_ignorable(c: char) -> bool {
    matches!(c,
        '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_is_caught_and_every_neighbour_passes() {
        for path in [
            ".git/config",
            ".Git/HEAD",
            ".GIT",
            "sub/.git",
            "a/.hg/hgrc",
            ".claude/settings.json",
            "AGENTS.md",
            "agents.MD",
            "deep/er/CLAUDE.md",
            ".mcp.json",
            ".envrc",
            ".vscode/tasks.json",
            ".idea/x",
            ".husky/pre-commit",
            ".bashrc",
            ".g\u{200c}it/config",
            ".git.",
            ".git ",
            "CLAUDE.md/x",
            ".v\u{17f}code/x",
        ] {
            assert!(protected(Path::new(path)).is_some(), "{path}");
        }
        for path in [
            "git/config",
            ".gitignore",
            ".gitattributes",
            ".github/workflows/ci.yml",
            "AGENTS.md.bak",
            "my-agents.md",
            ".env",
            "src/.git-hooks",
            "profile",
            "README.md",
        ] {
            assert_eq!(protected(Path::new(path)), None, "{path}");
        }
        assert_eq!(protected(Path::new("a/.Git/b")).as_deref(), Some(".Git"));
    }
}
