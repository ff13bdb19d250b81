//! What the tool worker and its client say to each other.
//!
//! A frame is two little-endian lengths, a JSON head and raw bytes: file
//! content travels as bytes, never inside JSON. Both sides bound what they
//! read and treat the other as a stranger: the worker may have been taken over
//! by a file that it parsed.

use std::io::{self, Read, Write};
use std::path::PathBuf;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::journal::Digest;

/// Largest frame, head and bytes together.
pub(super) const MAX_FRAME: usize = 16 << 20;

/// Raised with every change that one side could not read.
pub(super) const VERSION: u32 = 1;

/// Length of what comes before the head.
pub(super) const PREFIX: usize = 8;

/// The first frame to a worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Hello {
    pub(super) version: u32,
    /// Canonical path of the workspace.
    pub(super) workspace: PathBuf,
    /// Its device and inode; another folder there is refused.
    pub(super) dev: u64,
    pub(super) ino: u64,
    pub(super) readonly: bool,
    pub(super) vision: bool,
    /// Where the whole outputs of Bash are, and the path by which models name it.
    pub(super) output: Option<Output>,
    /// Temporary names that an earlier run was killed over.
    pub(super) leftovers: Vec<String>,
}

/// A folder outside the workspace that Read may look into.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Output {
    pub(super) shown: PathBuf,
    pub(super) at: PathBuf,
}

/// From the client.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum ToWorker {
    Hello(Hello),
    /// Run a tool. The bytes of the frame are the value of `bytes_of`, the
    /// argument that may be large.
    Call {
        tool: String,
        args: Map<String, Value>,
        bytes_of: Option<String>,
    },
    /// The intent is on the disk: change the file.
    Proceed,
    /// The intent could not be recorded: change nothing.
    Refuse {
        reason: String,
    },
}

/// From the worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum FromWorker {
    /// The workspace is open.
    Ready { version: u32 },
    /// It cannot be, and the worker ends.
    Fatal { reason: String },
    /// About to change a file; the bytes are its present content.
    Intent(Plan),
    /// The end of a call; the bytes are an image.
    Answer(Answer),
}

/// A change that the worker is ready to make.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Plan {
    pub(super) tool: String,
    /// Canonical, relative to the workspace.
    pub(super) path: String,
    pub(super) sha_before: Option<Digest>,
    pub(super) sha_after: Digest,
    pub(super) mode: Option<u32>,
    pub(super) temp: String,
}

/// What a call came to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Answer {
    pub(super) ok: bool,
    pub(super) text: String,
    /// Set when policy refused: one sentence for people.
    pub(super) refused: Option<String>,
    /// Media type of the image in the bytes.
    pub(super) image: Option<String>,
    /// What became of the intent, when there was one that was let through.
    pub(super) outcome: Option<Outcome>,
    /// What a committed change did to the text.
    pub(super) diff: Option<String>,
}

/// What became of a change that was let through.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Outcome {
    /// The new bytes are in place.
    Committed { warning: Option<String> },
    /// The file is as it was.
    Aborted { reason: String },
}

/// Why a frame was not understood. After one of these the other side is not
/// listened to any more.
#[derive(Debug, thiserror::Error)]
pub(super) enum ProtoError {
    #[error("the connection ended")]
    Closed,
    #[error("a frame of {0} bytes, at most {MAX_FRAME} are taken")]
    TooLarge(u64),
    #[error("a frame that is not what was agreed: {0}")]
    Garbled(String),
    #[error("the connection broke: {0}")]
    Io(#[from] io::Error),
}

/// A frame as bytes; refuses what the other side would refuse.
pub(super) fn encode<T: Serialize>(head: &T, bytes: &[u8]) -> Result<Vec<u8>, ProtoError> {
    let mut frame = vec![0; PREFIX];
    serde_json::to_writer(&mut frame, head).map_err(|e| ProtoError::Garbled(e.to_string()))?;
    let head_length = frame.len() - PREFIX;
    if head_length + bytes.len() > MAX_FRAME {
        return Err(ProtoError::TooLarge((head_length + bytes.len()) as u64));
    }
    frame.extend_from_slice(bytes);
    // Both fit: they are below MAX_FRAME.
    frame[..4].copy_from_slice(&(head_length as u32).to_le_bytes());
    frame[4..PREFIX].copy_from_slice(&(bytes.len() as u32).to_le_bytes());
    Ok(frame)
}

/// The lengths of head and bytes, checked before anything is allocated.
pub(super) fn lengths(prefix: [u8; PREFIX]) -> Result<(usize, usize), ProtoError> {
    let [a, b, c, d, e, f, g, h] = prefix;
    let head = u64::from(u32::from_le_bytes([a, b, c, d]));
    let bytes = u64::from(u32::from_le_bytes([e, f, g, h]));
    if head + bytes > MAX_FRAME as u64 {
        return Err(ProtoError::TooLarge(head + bytes));
    }
    Ok((head as usize, bytes as usize))
}

/// Splits the body of a frame into its head and its bytes.
pub(super) fn decode<T: DeserializeOwned>(
    mut body: Vec<u8>,
    head_length: usize,
) -> Result<(T, Vec<u8>), ProtoError> {
    if head_length > body.len() {
        return Err(ProtoError::Garbled("it is too short".to_owned()));
    }
    let bytes = body.split_off(head_length);
    let head = serde_json::from_slice(&body).map_err(|e| ProtoError::Garbled(e.to_string()))?;
    Ok((head, bytes))
}

/// Writes one frame.
pub(super) fn send<T: Serialize>(
    to: &mut impl Write,
    head: &T,
    bytes: &[u8],
) -> Result<(), ProtoError> {
    to.write_all(&encode(head, bytes)?)?;
    Ok(())
}

/// Reads one frame.
pub(super) fn receive<T: DeserializeOwned>(
    from: &mut impl Read,
) -> Result<(T, Vec<u8>), ProtoError> {
    let mut prefix = [0; PREFIX];
    from.read_exact(&mut prefix).map_err(ended)?;
    let (head, bytes) = lengths(prefix)?;
    let mut body = vec![0; head + bytes];
    from.read_exact(&mut body).map_err(ended)?;
    decode(body, head)
}

/// An end in the middle of a frame is an end.
pub(super) fn ended(error: io::Error) -> ProtoError {
    match error.kind() {
        io::ErrorKind::UnexpectedEof
        | io::ErrorKind::ConnectionReset
        | io::ErrorKind::BrokenPipe => ProtoError::Closed,
        _ => ProtoError::Io(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn plan() -> FromWorker {
        FromWorker::Intent(Plan {
            tool: "Write".to_owned(),
            path: "a".to_owned(),
            sha_before: None,
            sha_after: Digest::of(b"x"),
            mode: Some(0o644),
            temp: ".t".to_owned(),
        })
    }

    #[test]
    fn a_frame_comes_back_as_it_went() {
        let mut wire = Vec::new();
        send(&mut wire, &plan(), b"old\0bytes").expect("send");
        send(&mut wire, &ToWorker::Proceed, b"").expect("send");
        let mut wire = &wire[..];
        let (head, bytes) = receive::<FromWorker>(&mut wire).expect("receive");
        assert_eq!((head, bytes.as_slice()), (plan(), &b"old\0bytes"[..]));
        let (head, _) = receive::<ToWorker>(&mut wire).expect("receive");
        assert_eq!(head, ToWorker::Proceed);
        assert!(matches!(
            receive::<ToWorker>(&mut wire),
            Err(ProtoError::Closed)
        ));
    }

    #[test]
    fn a_huge_length_is_refused_before_it_is_allocated() {
        let mut wire = &[0xff; 8][..];
        let got = receive::<ToWorker>(&mut wire);
        assert!(matches!(got, Err(ProtoError::TooLarge(_))));
        let full = vec![0; MAX_FRAME];
        assert!(matches!(
            encode(&ToWorker::Proceed, &full),
            Err(ProtoError::TooLarge(_))
        ));
    }

    proptest! {
        #[test]
        fn garbage_is_an_error_and_no_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = receive::<ToWorker>(&mut bytes.as_slice());
            let _ = receive::<FromWorker>(&mut bytes.as_slice());
        }

        #[test]
        fn a_damaged_frame_is_an_error_or_another_frame(
            at in 0..400usize, with in any::<u8>(), cut in 0..400usize,
        ) {
            let mut wire = encode(&plan(), b"old").expect("encode");
            let (at, cut) = (at % wire.len(), cut % (wire.len() + 1));
            wire[at] = with;
            let _ = receive::<FromWorker>(&mut &wire[..]);
            let _ = receive::<FromWorker>(&mut &wire[..cut]);
        }
    }
}
