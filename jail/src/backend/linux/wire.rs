//! What a cell's opener and its first process say to each other.
//!
//! Frames over a stream socket: a little-endian `u32` length, then that many
//! bytes of JSON. Descriptors ride on the first byte of a frame
//! (unix(7), SCM_RIGHTS).

use std::ffi::{OsStr, OsString};
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::failure::Failure;
use crate::guarantee::Form;
use crate::policy::Policy;
use crate::report::Report;

/// A frame larger than this is a broken peer.
const LARGEST: usize = 32 << 20;

/// Bytes that are nearly always text: a JSON string then, else a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Raw(pub(super) Vec<u8>);

impl From<&OsStr> for Raw {
    fn from(text: &OsStr) -> Self {
        Raw(text.as_bytes().to_vec())
    }
}

impl From<Raw> for OsString {
    fn from(raw: Raw) -> Self {
        OsString::from_vec(raw.0)
    }
}

impl Serialize for Raw {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match std::str::from_utf8(&self.0) {
            Ok(text) => serializer.serialize_str(text),
            Err(_) => self.0.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = Raw;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a string or a list of bytes")
            }
            fn visit_str<E>(self, text: &str) -> Result<Raw, E> {
                Ok(Raw(text.as_bytes().to_vec()))
            }
            fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut seq: A) -> Result<Raw, A::Error> {
                let mut bytes = Vec::new();
                while let Some(byte) = seq.next_element()? {
                    bytes.push(byte);
                }
                Ok(Raw(bytes))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

/// One command, without its descriptors.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Run {
    pub(super) call: u64,
    pub(super) argv: Vec<Raw>,
    pub(super) env: Vec<(Raw, Raw)>,
    pub(super) cwd: Option<Raw>,
    pub(super) deadline: Option<Duration>,
}

/// From the opener to the cell.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Ask {
    /// Once, first. `temp` is the narrow form's private folder, for the cell to
    /// remove when its opener dies without doing so.
    Open {
        policy: Box<Policy>,
        form: Form,
        temp: Option<PathBuf>,
    },
    /// Standard input, output and error ride along.
    Run(Run),
    /// End this call if it is still the one that runs.
    Kill { call: u64 },
}

/// From the cell to the opener.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Answer {
    /// The cell stands; a pidfd of its first process rides along.
    Ready,
    /// It does not.
    Failed(Failure),
    /// The command was executed.
    Started,
    /// It was not.
    NotStarted { step: String, errno: i32 },
    /// It ended and everything that it left is dead.
    Ended(Report),
}

/// Sends one frame with descriptors on its first byte.
pub(super) fn send<T: Serialize>(
    mut socket: &UnixStream,
    message: &T,
    fds: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let body = serde_json::to_vec(message).map_err(io::Error::other)?;
    let length =
        u32::try_from(body.len()).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    let mut frame = length.to_le_bytes().to_vec();
    frame.extend_from_slice(&body);
    let mut sent = 0;
    if !fds.is_empty() {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !control.push(SendAncillaryMessage::ScmRights(fds)) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        sent = rustix::net::sendmsg(
            socket,
            &[IoSlice::new(&frame)],
            &mut control,
            SendFlags::NOSIGNAL,
        )?;
    }
    // std's stream never raises SIGPIPE in a Rust program.
    socket.write_all(&frame[sent..])
}

/// Receives one frame; `Ok(None)` at the end of the stream.
pub(super) fn receive<T: DeserializeOwned>(
    mut socket: &UnixStream,
) -> io::Result<Option<(T, Vec<OwnedFd>)>> {
    let mut head = [0_u8; 4];
    let mut fds = Vec::new();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let got = loop {
        match rustix::net::recvmsg(
            socket.as_fd(),
            &mut [IoSliceMut::new(&mut head)],
            &mut control,
            RecvFlags::CMSG_CLOEXEC,
        ) {
            Ok(message) => break message.bytes,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    };
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            fds.extend(rights);
        }
    }
    if got == 0 {
        return Ok(None);
    }
    socket.read_exact(&mut head[got..])?;
    let length = u32::from_le_bytes(head) as usize;
    if length > LARGEST {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut body = vec![0; length];
    socket.read_exact(&mut body)?;
    let message = serde_json::from_slice(&body).map_err(io::Error::other)?;
    Ok(Some((message, fds)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_arrives_whole_with_its_descriptors() {
        let (a, b) = UnixStream::pair().expect("pair");
        let run = Run {
            call: 7,
            argv: vec![Raw(b"echo".to_vec()), Raw(vec![0xff, 0xfe])],
            env: Vec::new(),
            cwd: None,
            deadline: Some(Duration::from_millis(1500)),
        };
        send(&a, &Ask::Run(run), &[a.as_fd(), b.as_fd()]).expect("send");
        let (message, fds) = receive::<Ask>(&b).expect("receive").expect("a frame");
        assert_eq!(fds.len(), 2);
        let Ask::Run(run) = message else {
            panic!("another message")
        };
        assert_eq!(run.argv[1].0, [0xff, 0xfe]);
        drop((a, fds));
        assert!(receive::<Ask>(&b).expect("end").is_none());
    }

    #[test]
    fn a_length_that_no_honest_peer_sends_is_refused() {
        let (mut a, b) = UnixStream::pair().expect("pair");
        a.write_all(&u32::MAX.to_le_bytes()).expect("write");
        assert!(receive::<Ask>(&b).is_err());
    }
}
