//! Whose reasoning goes back on the OpenAI wire.

/// The setting `DELEGATE_RESEND_REASONING`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Resend {
    /// To the model that made it, except where that is known to be refused.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// Models known to do without, or to refuse it.
const WITHOUT: [&str; 1] = ["mimo-"];

impl Resend {
    /// Reads the setting; what it does not know is `auto`.
    pub fn from_setting(text: &str) -> Self {
        match text.trim() {
            "1" => Resend::Always,
            "0" => Resend::Never,
            _ => Resend::Auto,
        }
    }

    /// Whether a turn answered by `answered` takes its reasoning along to `asked`.
    /// A turn of which nobody knows who answered keeps it back.
    pub(crate) fn allows(self, asked: &str, answered: Option<&str>) -> bool {
        match self {
            Resend::Always => true,
            Resend::Never => false,
            Resend::Auto => answered.is_some_and(|answered| {
                let same = answered.eq_ignore_ascii_case(asked);
                let without = WITHOUT.iter().any(|prefix| begins(asked, prefix));
                !without && (same || (begins(asked, "deepseek") && begins(answered, "deepseek")))
            }),
        }
    }

    /// Whether `model` wants the field even where it is empty.
    pub(crate) fn deepseek(self, model: &str) -> bool {
        self != Resend::Never && begins(model, "deepseek")
    }
}

/// Whether the name, without the owner before a slash, begins so.
fn begins(name: &str, prefix: &str) -> bool {
    let name = name.rsplit('/').next().unwrap_or(name);
    name.get(..prefix.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn auto_is_the_model_that_answered() {
        let auto = |asked, answered| Resend::Auto.allows(asked, answered);
        assert!(auto("deepseek-v4-flash", Some("deepseek-v4-flash-0820")));
        assert!(auto("replay-model", Some("replay-model")));
        assert!(auto("deepseek/deepseek-v4", Some("DeepSeek-v4")));
        assert!(!auto("deepseek-v4-flash", Some("glm-5-3")));
        assert!(!auto("deepseek-v4-flash", None));
        assert!(!auto("mimo-pro", Some("mimo-pro")));
    }

    #[test]
    fn the_setting() {
        assert!(Resend::from_setting("1").allows("mimo-pro", None));
        assert!(!Resend::from_setting("0").allows("deepseek-x", Some("deepseek-x")));
        assert_eq!(Resend::from_setting("junk"), Resend::Auto);
    }
}
