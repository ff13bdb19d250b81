//! `delegate config show`: every value, where it came from, secrets masked.

use serde::Serialize;

use super::RunSettings;
use super::keys::{self, KEYS, Setting};
use super::layers::{Config, Mode, Origin, Sourced};
use super::resolve::{AgentAsk, Profile, endpoint_for_agent, endpoint_for_deepseek};

/// One line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Shown {
    /// `agents`, `deepseek` or `paths`.
    pub group: &'static str,
    /// Setting.
    pub name: String,
    /// Value; a secret is masked.
    pub value: String,
    /// Where it came from.
    pub origin: String,
    /// What it is for.
    pub about: String,
}

/// How a secret is shown: that it is there, never any part of it.
const MASK: &str = "(set, not shown)";

impl Config {
    /// Every value in effect. A part that cannot be made is a line with its
    /// error, so that one defect hides nothing else.
    pub fn show(&self) -> Vec<Shown> {
        let mut lines = Vec::new();
        self.show_agents(&mut lines);
        self.show_deepseek(&mut lines);
        let dir = self.agents_dir();
        lines.push(line(
            "paths",
            "agents_dir",
            dir.value.display().to_string(),
            &dir.origin,
            "agent definitions of this user",
        ));
        lines
    }

    fn show_agents(&self, lines: &mut Vec<Shown>) {
        let target = match endpoint_for_agent(self, &AgentAsk::default()) {
            Ok(target) => target,
            Err(error) => return lines.push(defect("agents", &error)),
        };
        for key in KEYS {
            let given = self.agents(key.name);
            let (value, origin) = match key.name {
                "base_url" => (
                    target.endpoint.base_url.to_string(),
                    target.url_origin.clone(),
                ),
                "model" => (target.endpoint.model.clone(), target.model_origin.clone()),
                "wire" => (
                    target.endpoint.wire.name().to_owned(),
                    given.map_or(Origin::Models, |given| given.origin),
                ),
                _ => value_of(key.name, &target.settings, given),
            };
            lines.push(line("agents", key.name, value, &origin, key.about));
        }
        lines.push(line(
            "agents",
            "key",
            masked(target.endpoint.key.is_some()),
            &self
                .agents("key_env")
                .map_or(Origin::Env("DELEGATE_LOCAL_KEY".to_owned()), |name| {
                    Origin::Env(name.value.show())
                }),
            "sent to base_url",
        ));
    }

    fn show_deepseek(&self, lines: &mut Vec<Shown>) {
        let mode = match self.deepseek_mode() {
            Ok(Mode::Auto) => "auto".to_owned(),
            Ok(Mode::Off) => "off".to_owned(),
            Err(error) => return lines.push(defect("deepseek", &error)),
        };
        lines.push(line(
            "deepseek",
            "mode",
            mode,
            &match self.env.get("DEEPSEEK_MODE") {
                Some(_) => Origin::Env("DEEPSEEK_MODE".to_owned()),
                None => Origin::Default,
            },
            "whether the deepseek tools delegate",
        ));
        for (name, profile) in [("flash", Profile::Flash), ("pro", Profile::Pro)] {
            let target = match endpoint_for_deepseek(self, profile) {
                Ok(target) => target,
                Err(error) => return lines.push(defect("deepseek", &error)),
            };
            if name == "flash" {
                lines.push(line(
                    "deepseek",
                    "base_url",
                    target.endpoint.base_url.to_string(),
                    &target.url_origin,
                    "where the models are",
                ));
                lines.push(line(
                    "deepseek",
                    "key",
                    masked(true),
                    &Origin::Default,
                    "chosen by host and variable",
                ));
                if let Ok(legacy) = &self.legacy {
                    for name in ["max_turns", "max_run_seconds", "max_output_tokens"] {
                        let given = self.deepseek(name, legacy);
                        let (value, origin) = value_of(name, &target.settings, given);
                        let about = keys::find(name, "").map_or("", |key| key.about);
                        lines.push(line("deepseek", name, value, &origin, about));
                    }
                }
            }
            lines.push(line(
                "deepseek",
                name,
                target.endpoint.model.clone(),
                &target.model_origin,
                "model of the profile",
            ));
        }
    }
}

fn masked(there: bool) -> String {
    if there { MASK } else { "(none)" }.to_owned()
}

fn value_of(
    name: &str,
    settings: &RunSettings,
    given: Option<Sourced<Setting>>,
) -> (String, Origin) {
    let value = keys::current(settings, name).or_else(|| given.as_ref().map(|g| g.value.show()));
    (
        value.unwrap_or_else(|| "(none)".to_owned()),
        given.map_or(Origin::Default, |given| given.origin),
    )
}

fn line(group: &'static str, name: &str, value: String, origin: &Origin, about: &str) -> Shown {
    Shown {
        group,
        name: name.to_owned(),
        value,
        origin: origin.to_string(),
        about: about.to_owned(),
    }
}

fn defect(group: &'static str, error: &super::ConfigError) -> Shown {
    Shown {
        group,
        name: "(defect)".to_owned(),
        value: error.to_string(),
        origin: error.code().to_owned(),
        about: String::new(),
    }
}
