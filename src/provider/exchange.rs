//! One request and the bytes of its answer.
//!
//! No layer below this one repeats a request, follows it to another host, or
//! bounds the whole of a stream; the waits for connection, first byte and next
//! byte are bounded. Dropping an [`Exchange`], or the future that makes one,
//! closes the socket.

use std::time::Duration;

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use reqwest::redirect;
use secrecy::{ExposeSecret, SecretString};
use tokio::time::Instant;
use url::Url;

use super::errors::Failure;
use super::{Wire, endpoint};

/// The most bytes of an error body that are read.
const MOST_OF_ERROR: usize = 64 << 10;

/// Hops of a redirect that are followed.
const HOPS: usize = 5;

/// The bounds on waiting.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waits {
    pub connect: Duration,
    pub first_byte: Duration,
    pub idle: Duration,
}

/// A client for one endpoint.
pub(crate) struct Http {
    client: reqwest::Client,
    headers: HeaderMap,
    waits: Waits,
}

impl Http {
    /// A client for `url`, its headers made once. `Err` is a sentence.
    pub fn new(
        url: &Url,
        wire: Wire,
        key: Option<&SecretString>,
        waits: Waits,
    ) -> Result<Self, String> {
        Ok(Http {
            client: client(url, waits.connect)?,
            headers: headers(url, wire, key)?,
            waits,
        })
    }

    /// Posts a body.
    pub async fn post(&self, url: &Url, body: Vec<u8>) -> Result<Exchange, Failure> {
        let deadline = Instant::now() + self.waits.first_byte;
        let sending = self
            .client
            .post(url.clone())
            .headers(self.headers.clone())
            .body(body)
            .send();
        let response = match tokio::time::timeout_at(deadline, sending).await {
            Ok(answer) => answer.map_err(sending_failed)?,
            Err(_) => return Err(Failure::transport(late("an answer", self.waits.first_byte))),
        };
        Ok(Exchange {
            response,
            waits: self.waits,
            first: Some(deadline),
        })
    }
}

/// A client with our rules; also used to list models.
pub(crate) fn client(url: &Url, connect: Duration) -> Result<reqwest::Client, String> {
    let origin = (
        url.scheme().to_owned(),
        url.host_str().map(str::to_owned),
        url.port_or_known_default(),
    );
    let mut builder = reqwest::Client::builder()
        .user_agent(concat!("delegate/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(connect)
        .tcp_nodelay(true)
        .pool_idle_timeout(Duration::from_secs(30))
        .referer(false)
        .retry(reqwest::retry::never())
        .redirect(redirect::Policy::custom(move |attempt| {
            let url = attempt.url();
            let there = (
                url.scheme().to_owned(),
                url.host_str().map(str::to_owned),
                url.port_or_known_default(),
            );
            // The other codes turn a POST into a GET.
            let keeps_method = matches!(attempt.status().as_u16(), 307 | 308);
            if there != origin {
                attempt.error("redirect to another host refused")
            } else if !keeps_method || attempt.previous().len() > HOPS {
                attempt.stop()
            } else {
                attempt.follow()
            }
        }));
    if endpoint::is_loopback(url) {
        builder = builder.no_proxy();
    }
    builder
        .build()
        .map_err(|error| format!("the HTTP client cannot be made: {}", innermost(&error)))
}

fn headers(url: &Url, wire: Wire, key: Option<&SecretString>) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    headers.insert(
        header::ACCEPT,
        HeaderValue::from_static("text/event-stream, application/json"),
    );
    headers.insert(
        header::ACCEPT_ENCODING,
        HeaderValue::from_static("identity"),
    );
    if wire == Wire::Anthropic {
        headers.insert(
            HeaderName::from_static("anthropic-version"),
            HeaderValue::from_static("2023-06-01"),
        );
    }
    // A proxy on this machine must not repeat on top of our own tries.
    if endpoint::is_loopback(url) {
        headers.insert(
            HeaderName::from_static("x-litellm-num-retries"),
            HeaderValue::from_static("0"),
        );
    }
    if let Some(key) = key {
        let plain = key.expose_secret().trim();
        if !plain.is_empty() {
            let value = |text: &str| {
                let mut value = HeaderValue::from_str(text)
                    .map_err(|_| "the key holds characters that no header can carry".to_owned())?;
                value.set_sensitive(true);
                Ok::<_, String>(value)
            };
            headers.insert(header::AUTHORIZATION, value(&format!("Bearer {plain}"))?);
            headers.insert(HeaderName::from_static("x-api-key"), value(plain)?);
        }
    }
    Ok(headers)
}

/// An answer whose body is still coming.
pub(crate) struct Exchange {
    response: reqwest::Response,
    waits: Waits,
    /// Until when the first byte of the body has to come.
    first: Option<Instant>,
}

impl Exchange {
    /// The status.
    pub fn status(&self) -> u16 {
        self.response.status().as_u16()
    }

    /// The headers.
    pub fn headers(&self) -> &HeaderMap {
        self.response.headers()
    }

    /// The next bytes; `None` at the proper end. `limit` shortens the idle wait.
    pub async fn next(&mut self, limit: Option<Duration>) -> Result<Option<Bytes>, Failure> {
        let idle = limit.unwrap_or(self.waits.idle).min(self.waits.idle);
        let deadline = self.first.unwrap_or_else(|| Instant::now() + idle);
        match tokio::time::timeout_at(deadline, self.response.chunk()).await {
            Ok(Ok(bytes)) => {
                self.first = None;
                Ok(bytes)
            }
            Ok(Err(error)) => Err(Failure::transport(format!(
                "the connection broke: {}",
                innermost(&error)
            ))),
            Err(_) if self.first.is_some() => Err(Failure::transport(late(
                "the first byte",
                self.waits.first_byte,
            ))),
            Err(_) => Err(Failure::transport(late("another byte", idle))),
        }
    }

    /// The body of an error, as much as is worth reading. What comes of it
    /// before the connection breaks is used.
    pub async fn error_body(&mut self) -> Vec<u8> {
        let mut body = Vec::new();
        while body.len() < MOST_OF_ERROR {
            match self.next(None).await {
                Ok(Some(bytes)) => body.extend_from_slice(&bytes),
                _ => break,
            }
        }
        body.truncate(MOST_OF_ERROR);
        body
    }
}

fn late(what: &str, wait: Duration) -> String {
    format!(
        "no {} within {wait:?}",
        what.trim_start_matches("an ").trim_start_matches("the ")
    )
}

fn sending_failed(error: reqwest::Error) -> Failure {
    if error.is_redirect() {
        return Failure::shape(
            "the server redirects to another host or scheme, which is not followed",
        );
    }
    let cause = innermost(&error);
    let what = if error.is_connect() || error.is_timeout() {
        "cannot connect"
    } else {
        "the request failed"
    };
    Failure::transport(format!("{what}: {cause}"))
}

/// The last cause: reqwest's own text holds the URL.
pub(crate) fn innermost(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}
