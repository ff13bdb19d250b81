//! Native or structured: which way of tools a server is up to.
//!
//! In `auto` a client begins native and switches once, for good, when the
//! server shows that its native calls are of no use. A single slip is no such
//! sign: the call is recovered, or the request repeated.

use super::draft::Made;
use super::errors::Failure;
use super::{ErrorClass, ToolMode, Wire};

/// What a server has shown so far.
#[derive(Debug, Default)]
pub(crate) struct Mode {
    structured: bool,
    native_seen: bool,
    bare: u32,
    unparsed: u32,
}

/// The way that one request goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Native,
    Structured,
}

/// What to do with a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Nothing.
    Keep,
    /// The reply is good; the next request goes the other way.
    SwitchAfter,
    /// The reply is useless; ask again the other way.
    SwitchNow,
}

/// Words of servers that take no tools at all.
const NO_TOOLS: &[&str] = &[
    "does not support tools",
    "does not support tool",
    "does not support function",
    "tools are not supported",
    "tool calling is not supported",
    "tool use is not supported",
    "function calling is not supported",
    "support tool use",
    "enable-auto-tool-choice",
    "tools param requires",
    "`tools` is not supported",
    "unsupported parameter: 'tools'",
    "unknown field `tools`",
    "unrecognized request argument supplied: tools",
];

/// Words of servers that fail to read what their model wrote.
const UNPARSED: &[&str] = &["peg-native", "failed to parse tool call"];

impl Mode {
    /// The way of the next request.
    pub fn way(&self, asked: ToolMode, wire: Wire) -> Way {
        match asked {
            ToolMode::Structured if wire == Wire::Openai => Way::Structured,
            ToolMode::Auto if wire == Wire::Openai && self.structured => Way::Structured,
            // The Anthropic wire has no response format.
            _ => Way::Native,
        }
    }

    fn may_switch(&self, asked: ToolMode, wire: Wire) -> bool {
        asked == ToolMode::Auto && wire == Wire::Openai && !self.structured
    }

    /// Learns from a reply to a native request.
    pub fn replied(&mut self, asked: ToolMode, wire: Wire, made: &Made) -> Verdict {
        self.native_seen |= made.native;
        self.unparsed = 0;
        if !self.may_switch(asked, wire) || self.native_seen {
            return Verdict::Keep;
        }
        if made.begun {
            self.structured = true;
            return Verdict::SwitchNow;
        }
        if made.bare {
            self.bare += 1;
            if self.bare >= 2 {
                self.structured = true;
                return Verdict::SwitchAfter;
            }
        }
        Verdict::Keep
    }

    /// Learns from a failure of a native request; true to ask again the other way.
    pub fn failed(&mut self, asked: ToolMode, wire: Wire, failure: &Failure) -> bool {
        if !self.may_switch(asked, wire) {
            return false;
        }
        let text = failure.message.to_lowercase();
        let says = |words: &[&str]| words.iter().any(|word| text.contains(word));
        let refused = matches!(
            failure.class,
            ErrorClass::BadRequest | ErrorClass::UpstreamError
        ) && says(NO_TOOLS);
        if says(UNPARSED) {
            self.unparsed += 1;
        }
        self.structured = refused || self.unparsed >= 2;
        self.structured
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::{Message, Stop, TurnReply};

    fn made(native: bool, bare: bool, begun: bool) -> Made {
        Made {
            reply: TurnReply {
                message: Message::user("x"),
                stop: Stop::EndTurn,
                usage: None,
                model: None,
                flags: Vec::new(),
            },
            native,
            bare,
            begun,
        }
    }

    const AUTO: ToolMode = ToolMode::Auto;
    const OPENAI: Wire = Wire::Openai;

    #[test]
    fn two_bare_calls_switch_and_the_switch_stays() {
        let mut mode = Mode::default();
        assert_eq!(
            mode.replied(AUTO, OPENAI, &made(false, true, false)),
            Verdict::Keep
        );
        assert_eq!(mode.way(AUTO, OPENAI), Way::Native);
        assert_eq!(
            mode.replied(AUTO, OPENAI, &made(false, true, false)),
            Verdict::SwitchAfter
        );
        assert_eq!(mode.way(AUTO, OPENAI), Way::Structured);
        assert_eq!(
            mode.replied(AUTO, OPENAI, &made(false, true, false)),
            Verdict::Keep
        );
        assert_eq!(mode.way(AUTO, OPENAI), Way::Structured);
    }

    #[test]
    fn a_native_call_settles_it() {
        let mut mode = Mode::default();
        mode.replied(AUTO, OPENAI, &made(true, false, false));
        for _ in 0..3 {
            assert_eq!(
                mode.replied(AUTO, OPENAI, &made(false, true, true)),
                Verdict::Keep
            );
        }
    }

    #[test]
    fn a_call_cut_off_in_text_switches_at_once() {
        let mut mode = Mode::default();
        assert_eq!(
            mode.replied(AUTO, OPENAI, &made(false, false, true)),
            Verdict::SwitchNow
        );
    }

    #[test]
    fn refusals_of_tools_switch_and_other_refusals_do_not() {
        let no_tools = Failure::new(ErrorClass::BadRequest, "x/y:z does not support tools");
        let other = Failure::new(ErrorClass::BadRequest, "temperature is out of range");
        let peg = Failure::new(
            ErrorClass::UpstreamError,
            "does not match the expected peg-native format",
        );
        assert!(!Mode::default().failed(AUTO, OPENAI, &other));
        assert!(Mode::default().failed(AUTO, OPENAI, &no_tools));
        let mut mode = Mode::default();
        assert!(!mode.failed(AUTO, OPENAI, &peg));
        assert!(mode.failed(AUTO, OPENAI, &peg));
    }

    #[test]
    fn who_asked_for_a_way_gets_it() {
        let no_tools = Failure::new(ErrorClass::BadRequest, "does not support tools");
        assert!(!Mode::default().failed(ToolMode::Native, OPENAI, &no_tools));
        assert!(!Mode::default().failed(AUTO, Wire::Anthropic, &no_tools));
        assert_eq!(
            Mode::default().way(ToolMode::Structured, OPENAI),
            Way::Structured
        );
        assert_eq!(
            Mode::default().way(ToolMode::Structured, Wire::Anthropic),
            Way::Native
        );
    }
}
