//! Whether a gateway says that it is alive: `BASE/health/liveliness`, as
//! LiteLLM spells it. Other servers answer 404 there, which is a sign of life too.

use std::time::{Duration, Instant};

use secrecy::{ExposeSecret, SecretString};
use url::Url;

use super::{endpoint, exchange};

/// Most characters of the body.
const MOST: usize = 100;

/// An answer to the question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Liveness {
    /// HTTP status.
    pub status: u16,
    /// The body, at most 100 characters.
    pub body: String,
    /// Time until it was there.
    pub took: Duration,
}

/// Asks; waits no longer than `limit`. The error is one sentence.
pub async fn liveness(
    base_url: &Url,
    key: Option<&SecretString>,
    limit: Duration,
) -> Result<Liveness, String> {
    if let Some(why) = endpoint::refuse(base_url) {
        return Err(why.to_owned());
    }
    let begun = Instant::now();
    let ask = async {
        let url = liveness_url(base_url);
        let mut request = exchange::client(&url, limit)?.get(url);
        if let Some(key) = key {
            request = request.bearer_auth(key.expose_secret().trim());
        }
        let broken = |error: reqwest::Error| exchange::innermost(&error);
        let mut response = request.send().await.map_err(broken)?;
        let status = response.status().as_u16();
        let mut body = Vec::new();
        while let Some(bytes) = response.chunk().await.map_err(broken)? {
            body.extend_from_slice(&bytes);
            if body.len() > 4 * MOST {
                break;
            }
        }
        Ok(Liveness {
            status,
            body: String::from_utf8_lossy(&body).chars().take(MOST).collect(),
            took: begun.elapsed(),
        })
    };
    tokio::time::timeout(limit, ask)
        .await
        .unwrap_or_else(|_| Err(format!("no answer within {limit:?}")))
}

fn liveness_url(base_url: &Url) -> Url {
    let mut url = endpoint::models_url(base_url);
    let path = url.path().to_owned();
    let root = path.strip_suffix("/models").unwrap_or(&path);
    let root = root.strip_suffix("/v1").unwrap_or(root);
    url.set_path(&format!("{root}/health/liveliness"));
    url
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_question_goes_beside_the_api() {
        for (base, asked) in [
            ("http://h:4000", "http://h:4000/health/liveliness"),
            ("http://h:4000/v1", "http://h:4000/health/liveliness"),
            (
                "http://h:4000/v1/messages",
                "http://h:4000/health/liveliness",
            ),
            ("http://h/litellm/v1", "http://h/litellm/health/liveliness"),
        ] {
            let base = Url::parse(base).expect("url");
            assert_eq!(liveness_url(&base).as_str(), asked);
        }
    }
}
