//! Which model plays: the one that was named, one that is there, or none.

use std::time::Duration;

use secrecy::SecretString;
use url::Url;

use super::Args;
use crate::cli::host;
use crate::provider::{self, LocalServer};
use crate::rehearsal::{Rehearsal, Script};

/// How long a local server may take to say that it is there.
const LOOK: Duration = Duration::from_millis(700);

/// Where the answers come from.
pub(super) struct Model {
    pub base_url: String,
    pub name: String,
    pub wire: Option<String>,
    pub key_env: Option<String>,
    pub rehearsal: bool,
    /// One line for people.
    pub label: String,
    /// Serves for as long as it is held.
    _rehearsal: Option<Rehearsal>,
}

impl Model {
    /// Named, found, or rehearsed, in this order.
    pub(super) async fn choose(args: &Args) -> Result<Model, String> {
        if let Some(base_url) = &args.base_url {
            return named(args, base_url).await;
        }
        if !args.rehearsal
            && let Some(server) = provider::discover(&provider::usual_candidates(), LOOK).await
            && let Some(name) = args.model.clone().or_else(|| likely(&server))
        {
            return Ok(Model {
                label: format!("{name} at {} ({})", server.base_url, server.kind),
                base_url: server.base_url.to_string(),
                name,
                wire: args.wire.clone(),
                key_env: args.key_env.clone(),
                rehearsal: false,
                _rehearsal: None,
            });
        }
        if args.model.is_some() || args.wire.is_some() || args.key_env.is_some() {
            return Err(
                "no model server answers at the usual local ports; name one with --base-url"
                    .to_owned(),
            );
        }
        rehearse().await
    }
}

async fn named(args: &Args, base_url: &str) -> Result<Model, String> {
    let url = Url::parse(base_url).map_err(|cause| format!("--base-url {base_url}: {cause}"))?;
    let key = match &args.key_env {
        None => None,
        Some(name) => Some(
            std::env::var(name)
                .map(SecretString::from)
                .map_err(|_| format!("--key-env {name}: the variable is not set"))?,
        ),
    };
    let name = match &args.model {
        Some(name) => name.clone(),
        None => provider::list_models(&url, key.as_ref())
            .await
            .map_err(|error| format!("{}; name a model with --model", error.text))?
            .into_iter()
            .next()
            .ok_or("the server lists no model; name one with --model")?,
    };
    Ok(Model {
        label: format!("{name} at {url}"),
        base_url: base_url.to_owned(),
        name,
        wire: args.wire.clone(),
        key_env: args.key_env.clone(),
        rehearsal: false,
        _rehearsal: None,
    })
}

async fn rehearse() -> Result<Model, String> {
    let home = host::home().map_err(|error| error.to_string())?;
    let script = Script::builtin()
        .map_err(|error| error.to_string())?
        .with_home(&home);
    let rehearsal = Rehearsal::start(script)
        .await
        .map_err(|cause| format!("the rehearsal cannot listen on a loopback port: {cause}"))?;
    Ok(Model {
        base_url: rehearsal.base_url(),
        name: rehearsal.model().to_owned(),
        wire: Some("openai".to_owned()),
        key_env: None,
        rehearsal: true,
        label: "no model: rehearsal (recorded answers; all else is real)".to_owned(),
        _rehearsal: Some(rehearsal),
    })
}

/// The first model that is likely to talk.
fn likely(server: &LocalServer) -> Option<String> {
    let talks = |name: &&String| {
        let name = name.to_ascii_lowercase();
        !["embed", "rerank", "whisper", "tts"]
            .iter()
            .any(|word| name.contains(word))
    };
    server.models.iter().find(talks).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_that_cannot_talk_is_passed_over() {
        let server = |models: &[&str]| LocalServer {
            kind: "Ollama",
            base_url: Url::parse("http://127.0.0.1:1/v1").expect("url"),
            models: models.iter().map(|name| (*name).to_owned()).collect(),
        };
        assert_eq!(
            likely(&server(&["nomic-embed-text", "qwen3-coder"])).as_deref(),
            Some("qwen3-coder")
        );
        assert_eq!(likely(&server(&["bge-reranker"])), None);
    }
}
