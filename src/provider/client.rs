//! The client of one endpoint: a turn in, whole blocks out.
//!
//! Everything that may repeat a request is decided here, and each repetition is
//! one of four: another try after a wait, one changed parameter, the other tool
//! mode, or none. What a broken-off try said is thrown away whole.

use std::time::{Duration, SystemTime};

use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;
use url::Url;

use super::adapt::Adapted;
use super::answer::{self, Decoder};
use super::draft::{self, Draft, Ground, Made};
use super::errors::{self, Failure};
use super::exchange::{Exchange, Http, Waits};
use super::mode::{Mode, Verdict, Way};
use super::openai_encode::Style;
use super::resend::Resend;
use super::retry::{self, Bounds, Step};
use super::think::Live;
use super::{
    Endpoint, ErrorClass, ProviderError, ProviderEvent, TurnReply, TurnRequest, Wire,
    anthropic_encode, endpoint, openai_encode, report, structured,
};
use crate::config::RunSettings;

/// Parameters that ask for room below this are not worth a request.
const LEAST_OUTPUT: u32 = 1024;

/// A client of one endpoint; holds what was learnt of the server.
pub struct Client {
    endpoint: Endpoint,
    url: Url,
    http: Http,
    bounds: Bounds,
    stream: bool,
    vision: bool,
    window: u32,
    resend: Resend,
    mode: Mode,
    adapted: Adapted,
}

impl Client {
    /// A client for an endpoint. Nothing is sent yet.
    pub fn new(endpoint: Endpoint, settings: &RunSettings) -> Result<Self, ProviderError> {
        let refuse = |text: &str| ProviderError {
            class: ErrorClass::Local,
            text: text.to_owned(),
            status: None,
            attempts: 0,
        };
        if let Some(why) = endpoint::refuse(&endpoint.base_url) {
            return Err(refuse(why));
        }
        let url = endpoint::call_url(&endpoint.base_url, endpoint.wire);
        let waits = Waits {
            connect: settings.connect_timeout,
            first_byte: settings.first_byte_timeout,
            idle: settings.idle_timeout,
        };
        let http = Http::new(&url, endpoint.wire, endpoint.key.as_ref(), waits)
            .map_err(|text| refuse(&text))?;
        Ok(Client {
            endpoint,
            url,
            http,
            bounds: Bounds {
                max_attempts: settings.max_attempts.max(1),
                base: settings.retry_base,
                cap: settings.retry_cap,
            },
            stream: settings.stream,
            vision: settings.vision,
            window: settings.context_window,
            resend: Resend::Auto,
            mode: Mode::default(),
            adapted: Adapted::default(),
        })
    }

    /// Sets whose reasoning goes back on the OpenAI wire.
    pub fn with_resend(mut self, resend: Resend) -> Self {
        self.resend = resend;
        self
    }

    /// Asks the model for its next turn. Retries inside; nothing else retries.
    pub async fn turn(
        &mut self,
        req: TurnRequest<'_>,
        cancel: &CancellationToken,
        on: &mut (dyn FnMut(ProviderEvent) + Send),
    ) -> Result<TurnReply, ProviderError> {
        let mut sent = 0;
        // Tries of the same request; a changed one begins anew.
        let mut tries = 0;
        loop {
            let way = self.mode.way(req.tool_mode, self.endpoint.wire);
            let body = self.body(&req, way);
            sent += 1;
            tries += 1;
            on(ProviderEvent::Sent { attempt: sent });
            let outcome = tokio::select! {
                biased;
                () = cancel.cancelled() => return Err(self.cancelled(sent)),
                outcome = self.attempt(&req, way, &body, on) => outcome,
            };
            let failure = match outcome {
                Ok(made) if way == Way::Structured => return Ok(made.reply),
                Ok(made) => match self.mode.replied(req.tool_mode, self.endpoint.wire, &made) {
                    Verdict::Keep => return Ok(made.reply),
                    Verdict::SwitchAfter => {
                        on(ProviderEvent::ModeSwitched);
                        return Ok(made.reply);
                    }
                    Verdict::SwitchNow => {
                        on(ProviderEvent::ModeSwitched);
                        tries = 0;
                        continue;
                    }
                },
                Err(failure) => failure,
            };
            if self.adapted.learn(&failure, &body) {
                tries = 0;
                continue;
            }
            if way == Way::Native
                && self
                    .mode
                    .failed(req.tool_mode, self.endpoint.wire, &failure)
            {
                on(ProviderEvent::ModeSwitched);
                tries = 0;
                continue;
            }
            let wait = match retry::step(self.bounds, tries, &failure, jitter()) {
                Step::Wait(wait) => wait,
                Step::GiveUp => return Err(self.error(&failure, sent, None)),
                Step::TooLong(named) => return Err(self.error(&failure, sent, Some(named))),
            };
            on(ProviderEvent::Retrying {
                class: failure.class,
                wait,
            });
            tokio::select! {
                biased;
                () = cancel.cancelled() => return Err(self.cancelled(sent)),
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    fn style(&self) -> Style {
        Style {
            model: self.endpoint.model.clone(),
            stream: self.stream,
            bound: if self.adapted.completion_bound {
                "max_completion_tokens"
            } else {
                "max_tokens"
            },
            stream_usage: true,
            images: self.vision && !self.adapted.no_images,
            resend: self.adapted.resend.unwrap_or(self.resend),
        }
    }

    fn body(&self, req: &TurnRequest<'_>, way: Way) -> Map<String, Value> {
        let style = self.style();
        let encode = match (self.endpoint.wire, way) {
            (Wire::Anthropic, _) => anthropic_encode::body,
            (Wire::Openai, Way::Native) => openai_encode::body,
            (Wire::Openai, Way::Structured) => structured::body,
        };
        let wanted = req
            .max_output_tokens
            .min(self.adapted.most_output.unwrap_or(u32::MAX))
            .max(1);
        let mut body = encode(req, wanted, &style);
        // An output bound that cannot fit beside the prompt is refused by some
        // servers whatever the answer's length would be.
        let prompt = u32::try_from(length(&body) / 4).unwrap_or(u32::MAX);
        let room = self.window.saturating_sub(prompt);
        if wanted > room && room >= LEAST_OUTPUT {
            let bound = if self.endpoint.wire == Wire::Anthropic {
                "max_tokens"
            } else {
                style.bound
            };
            body.insert(bound.into(), Value::from(room));
        }
        for (key, value) in &self.endpoint.extra_body {
            if !body.contains_key(key) {
                body.insert(key.clone(), value.clone());
            }
        }
        body.retain(|key, _| !self.adapted.dropped.iter().any(|dropped| dropped == key));
        body
    }

    async fn attempt(
        &self,
        req: &TurnRequest<'_>,
        way: Way,
        body: &Map<String, Value>,
        on: &mut (dyn FnMut(ProviderEvent) + Send),
    ) -> Result<Made, Failure> {
        let bytes = serde_json::to_vec(body).map_err(|error| {
            Failure::new(
                ErrorClass::Local,
                format!("the request cannot be written as JSON: {error}"),
            )
        })?;
        let size = bytes.len();
        let mut exchange = self.http.post(&self.url, bytes).await?;
        let status = exchange.status();
        let named = retry::named_wait(exchange.headers(), SystemTime::now());
        if !(200..300).contains(&status) {
            let said = exchange.error_body().await;
            let mut failure = errors::from_status(status, &said);
            failure.retry_after = named;
            // A refusal without a reason of a nearly full window is most likely
            // the window's.
            if status == 400
                && said.trim_ascii().is_empty()
                && size / 4 > self.window as usize / 5 * 4
            {
                failure = Failure {
                    status: Some(status),
                    ..Failure::new(
                        ErrorClass::ContextOverflow,
                        "the request fills the model's window",
                    )
                };
            }
            return Err(failure);
        }
        let draft = self
            .answer(&mut exchange, req, way, on)
            .await
            .map_err(|failure| Failure {
                status: Some(status),
                retry_after: failure.retry_after.or(named),
                ..failure
            })?;
        let ground = Ground {
            wire: self.endpoint.wire,
            tools: req.tools,
            messages: req.messages,
        };
        match way {
            Way::Native => draft::assemble(draft, ground),
            Way::Structured => structured::assemble(draft, ground),
        }
    }

    /// Reads the answer to its end.
    async fn answer(
        &self,
        exchange: &mut Exchange,
        req: &TurnRequest<'_>,
        way: Way,
        on: &mut (dyn FnMut(ProviderEvent) + Send),
    ) -> Result<Draft, Failure> {
        let encoding = exchange
            .headers()
            .get(http::header::CONTENT_ENCODING)
            .and_then(|v| v.to_str().ok());
        if let Some(encoding) =
            encoding.filter(|e| !e.eq_ignore_ascii_case("identity") && !e.is_empty())
        {
            return Err(Failure::shape(format!(
                "the answer is compressed ({encoding}), which was not asked for"
            )));
        }
        let resolved = exchange
            .headers()
            .get("x-bifrost-resolved-model")
            .and_then(|v| v.to_str().ok())
            .map(str::to_owned);
        let live = if way == Way::Structured {
            Live::muted()
        } else {
            Live::new()
        };
        let known: Vec<&str> = req.tools.iter().map(|tool| tool.name).collect();
        let decoder = Decoder::new(self.endpoint.wire, &known, live);
        let mut draft = answer::read(exchange, decoder, on).await?;
        draft.model = draft.model.or(resolved);
        Ok(draft)
    }

    fn error(&self, failure: &Failure, attempts: u32, too_long: Option<Duration>) -> ProviderError {
        ProviderError {
            class: failure.class,
            text: report::text(failure, &self.endpoint, attempts, too_long),
            status: failure.status,
            attempts,
        }
    }

    fn cancelled(&self, attempts: u32) -> ProviderError {
        ProviderError {
            class: ErrorClass::Cancelled,
            text: "cancelled while waiting for the model".to_owned(),
            status: None,
            attempts,
        }
    }
}

fn length(body: &Map<String, Value>) -> usize {
    serde_json::to_string(body).map_or(0, |text| text.len())
}

/// Uniform in 0..1; the spread of waits needs no more than this.
fn jitter() -> f64 {
    let random = ulid::Ulid::generate().random() & 0xffff_ffff;
    random as f64 / 4_294_967_296.0
}

#[cfg(test)]
mod tests;
