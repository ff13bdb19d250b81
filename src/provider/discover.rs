//! Finding a model server on this machine, and the models that one has.

use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesOrdered;
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use url::Url;

use super::errors::{self, Failure};
use super::{Endpoint, ErrorClass, ProviderError, Wire, endpoint, exchange, report};

/// The longest that a listing may take.
const LIST_TIME: Duration = Duration::from_secs(15);
/// The most bytes of a listing.
const MOST: usize = 4 << 20;

/// A place where a server may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Name of the program, for people.
    pub kind: &'static str,
    /// Its base URL.
    pub base_url: Url,
}

/// A server that answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalServer {
    /// Name of the program that usually is at this port.
    pub kind: &'static str,
    /// Its base URL.
    pub base_url: Url,
    /// Its models, at least one.
    pub models: Vec<String>,
}

/// The usual places, in the order of preference.
pub fn usual_candidates() -> Vec<Candidate> {
    [
        ("LM Studio", 1234),
        ("Ollama", 11434),
        ("llama.cpp", 8080),
        ("vLLM", 8000),
        ("LiteLLM", 4000),
    ]
    .into_iter()
    .filter_map(|(kind, port)| {
        let base_url = Url::parse(&format!("http://127.0.0.1:{port}/v1")).ok()?;
        Some(Candidate { kind, base_url })
    })
    .collect()
}

/// The first of the candidates, in their order, that lists a model within
/// `limit`. All are asked at once, without any key.
pub async fn discover(candidates: &[Candidate], limit: Duration) -> Option<LocalServer> {
    let mut asked: FuturesOrdered<_> = candidates
        .iter()
        .map(|candidate| async move {
            let models = tokio::time::timeout(limit, list(&candidate.base_url, None, limit)).await;
            let models = models.ok()?.ok().filter(|models| !models.is_empty())?;
            Some(LocalServer {
                kind: candidate.kind,
                base_url: candidate.base_url.clone(),
                models,
            })
        })
        .collect();
    while let Some(answer) = asked.next().await {
        if answer.is_some() {
            return answer;
        }
    }
    None
}

/// The models that a server lists.
pub async fn list_models(
    base_url: &Url,
    key: Option<&SecretString>,
) -> Result<Vec<String>, ProviderError> {
    let failure = match endpoint::refuse(base_url) {
        Some(why) => Failure::new(ErrorClass::Local, why),
        None => match tokio::time::timeout(LIST_TIME, list(base_url, key, LIST_TIME)).await {
            Ok(Ok(models)) => return Ok(models),
            Ok(Err(failure)) => failure,
            Err(_) => Failure::transport(format!("no list of models within {LIST_TIME:?}")),
        },
    };
    let place = Endpoint {
        base_url: base_url.clone(),
        wire: Wire::Openai,
        model: "(list)".to_owned(),
        key: key.cloned(),
        extra_body: serde_json::Map::new(),
    };
    Err(ProviderError {
        class: failure.class,
        text: report::text(&failure, &place, 1, None),
        status: failure.status,
        attempts: 1,
    })
}

async fn list(
    base_url: &Url,
    key: Option<&SecretString>,
    connect: Duration,
) -> Result<Vec<String>, Failure> {
    let url = endpoint::models_url(base_url);
    let client =
        exchange::client(&url, connect).map_err(|text| Failure::new(ErrorClass::Local, text))?;
    let mut request = client.get(url).header("accept", "application/json");
    if let Some(key) = key {
        request = request
            .bearer_auth(key.expose_secret().trim())
            .header("x-api-key", key.expose_secret().trim());
    }
    let broken = |error: reqwest::Error| Failure::transport(exchange::innermost(&error));
    let mut response = request.send().await.map_err(broken)?;
    let status = response.status();
    let mut body = Vec::new();
    while let Some(bytes) = response.chunk().await.map_err(broken)? {
        body.extend_from_slice(&bytes);
        if body.len() > MOST {
            return Err(Failure::shape("the list of models is larger than 4 MiB"));
        }
    }
    if !status.is_success() {
        return Err(errors::from_status(status.as_u16(), &body));
    }
    let value: Value = serde_json::from_slice(&body)
        .map_err(|error| Failure::shape(format!("the list of models is no JSON: {error}")))?;
    if let Some(failure) = errors::from_value(&value) {
        return Err(failure);
    }
    names(&value)
        .ok_or_else(|| Failure::shape("the list of models has neither `data` nor `models`"))
}

/// Names in a list of either kind: OpenAI's and Anthropic's `data`, Ollama's `models`.
fn names(value: &Value) -> Option<Vec<String>> {
    let items = ["data", "models"]
        .iter()
        .find_map(|key| value.get(*key)?.as_array())?;
    let name = |item: &Value| {
        ["id", "name", "model"]
            .iter()
            .find_map(|key| Some(item.get(*key)?.as_str()?.to_owned()))
    };
    Some(
        items
            .iter()
            .filter_map(name)
            .filter(|name| !name.is_empty())
            .collect(),
    )
}

#[cfg(test)]
mod tests;
