//! Which folders are no workspace, whoever asks. Pure.

use std::fmt;
use std::path::Path;

/// Why a folder is refused as a workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The home folder.
    Home,
    /// A folder above the home folder, `/` included.
    AboveHome,
    /// Credentials are kept there.
    Credentials,
    /// A component such as `.git` or `.claude`, whose files steer other programs.
    Control,
    /// A folder of the operating system.
    System,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refused::Home => "it is your home folder",
            Refused::AboveHome => "it holds your home folder",
            Refused::Credentials => "credentials are kept there",
            Refused::Control => "it is part of a control folder such as .git or .claude",
            Refused::System => "it belongs to the operating system",
        })
    }
}

/// Components that steer version control, agents or this program.
const CONTROL: &[&str] = &[
    ".git",
    ".hg",
    ".svn",
    ".claude",
    ".codex",
    ".agents",
    ".deepseek-mcp",
];

/// Below the home folder.
const CREDENTIALS: &[&str] = &[
    ".ssh",
    ".aws",
    ".azure",
    ".gnupg",
    ".kube",
    ".docker",
    ".config/gcloud",
    ".config/gh",
    ".config/delegate",
    ".local/share/keyrings",
    ".password-store",
    "Library/Keychains",
];

/// Refused exactly; what lies below may be a project (`/usr/src/app`).
const SYSTEM: &[&str] = &[
    "/bin",
    "/boot",
    "/etc",
    "/lib",
    "/lib32",
    "/lib64",
    "/opt",
    "/run",
    "/sbin",
    "/tmp",
    "/usr",
    "/usr/bin",
    "/usr/lib",
    "/usr/local",
    "/usr/share",
    "/var",
    "/var/lib",
    "/var/tmp",
];

/// Refused with everything below.
const KERNEL: &[&str] = &["/dev", "/proc", "/sys"];

/// Why `root` (canonical) is refused for a user with this home.
pub(super) fn refusal(root: &Path, home: Option<&Path>) -> Option<Refused> {
    if let Some(home) = home {
        if root == home {
            return Some(Refused::Home);
        }
        if home.starts_with(root) {
            return Some(Refused::AboveHome);
        }
        if CREDENTIALS
            .iter()
            .any(|kept| root.starts_with(home.join(kept)))
        {
            return Some(Refused::Credentials);
        }
    }
    if root == Path::new("/") {
        return Some(Refused::AboveHome);
    }
    let control = |part: &str| CONTROL.iter().any(|name| part.eq_ignore_ascii_case(name));
    if root
        .components()
        .any(|part| part.as_os_str().to_str().is_some_and(control))
    {
        return Some(Refused::Control);
    }
    if SYSTEM.iter().any(|path| root == Path::new(path))
        || KERNEL.iter().any(|path| root.starts_with(path))
    {
        return Some(Refused::System);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_place_has_its_reason_and_its_neighbour_passes() {
        let home = Path::new("/home/u");
        let ask = |path: &str| refusal(Path::new(path), Some(home));
        assert_eq!(ask("/home/u"), Some(Refused::Home));
        assert_eq!(ask("/home"), Some(Refused::AboveHome));
        assert_eq!(ask("/"), Some(Refused::AboveHome));
        assert_eq!(ask("/home/u/.config/gcloud/x"), Some(Refused::Credentials));
        assert_eq!(ask("/home/u/p/.Git"), Some(Refused::Control));
        assert_eq!(ask("/usr"), Some(Refused::System));
        assert_eq!(ask("/proc/1/cwd"), Some(Refused::System));
        for fine in [
            "/home/u/p",
            "/home/u2",
            "/usr/src/app",
            "/tmp/x",
            "/home/u/.config/nvim",
        ] {
            assert_eq!(ask(fine), None, "{fine}");
        }
        assert_eq!(refusal(Path::new("/"), None), Some(Refused::AboveHome));
        assert_eq!(refusal(Path::new("/srv/p"), None), None);
    }
}
