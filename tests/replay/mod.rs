//! The replay harness: cases of `tests/corpus/provider`, a server that plays
//! them and checks each request, a judge of the end. The rules are those of the
//! corpus' own README; G0 to G9 are its names.

#![allow(dead_code, reason = "each test binary uses its own part")]

pub mod checks;
pub mod drive;
pub mod judge;
pub mod mcp;
pub mod server;
pub mod tiny;
pub mod wire;

use std::collections::BTreeMap;
use std::path::Path;

use base64::Engine;
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// The key that every case uses.
pub const KEY: &str = "sk-replay-5ECRET-0001";
/// The model of every case.
pub const MODEL: &str = "replay-model";

/// One case file.
#[derive(Clone, Debug, Deserialize)]
pub struct Case {
    pub name: String,
    pub format: String,
    pub driver: String,
    pub task: String,
    #[serde(default)]
    pub config: Map<String, Value>,
    #[serde(default)]
    pub workspace: Workspace,
    #[serde(default)]
    pub client: Vec<Value>,
    pub transport: Vec<Answer>,
    #[serde(default)]
    pub repeat_last: bool,
    pub expect: Value,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub struct Workspace {
    #[serde(default)]
    pub files: BTreeMap<String, Content>,
}

/// Content of a file: text or base64.
#[derive(Clone, Debug, Deserialize)]
pub struct Content {
    text: Option<String>,
    b64: Option<String>,
}

/// One response of the server and what its request must be.
#[derive(Clone, Debug, Deserialize)]
pub struct Answer {
    pub status: u16,
    #[serde(default)]
    pub headers: BTreeMap<String, Value>,
    pub chunks: Vec<Value>,
    #[serde(default)]
    pub end: Option<String>,
    #[serde(default)]
    pub request: Option<Value>,
}

impl Content {
    pub fn bytes(&self) -> Vec<u8> {
        match (&self.text, &self.b64) {
            (Some(text), _) => text.clone().into_bytes(),
            (None, Some(b64)) => unbase64(b64),
            (None, None) => Vec::new(),
        }
    }
}

pub fn unbase64(text: &str) -> Vec<u8> {
    base64::engine::general_purpose::STANDARD
        .decode(text)
        .expect("base64 in a case")
}

impl Case {
    /// The case whose name begins so.
    pub fn load(prefix: &str) -> Case {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/provider");
        let mut found = Vec::new();
        for entry in std::fs::read_dir(&folder).expect("the corpus") {
            let path = entry.expect("an entry").path();
            let name = path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            if name.starts_with(prefix) && name.ends_with(".json") {
                found.push(path);
            }
        }
        assert_eq!(found.len(), 1, "cases that begin with {prefix}: {found:?}");
        let text = std::fs::read_to_string(&found[0]).expect("a case");
        serde_json::from_str(&text).expect("a case")
    }

    /// The settings of the case over the defaults of the corpus.
    pub fn settings(&self) -> Map<String, Value> {
        let mut settings = json!({
            "max_attempts": 4, "retry_base_ms": 20, "retry_cap_ms": 5000, "connect_timeout_ms": 5000,
            "first_byte_timeout_ms": 10000, "idle_timeout_ms": 5000, "max_turns": 12, "max_output_tokens": 4096,
            "context_window": 32768, "stream": true, "vision": false, "progress_interval_ms": 5000,
            "bash_timeout_ms": 30000,
        });
        let map = settings.as_object_mut().expect("an object");
        map.extend(self.config.clone());
        map.clone()
    }

    /// Puts the files of the case into a folder.
    pub fn fill(&self, workspace: &Path) {
        std::fs::create_dir_all(workspace).expect("a workspace");
        for (name, content) in &self.workspace.files {
            let path = workspace.join(name);
            if let Some(parent) = path.parent() {
                std::fs::create_dir_all(parent).expect("a folder");
            }
            std::fs::write(path, content.bytes()).expect("a file");
        }
    }

    /// The base URL for a server at this port.
    pub fn base_url(&self, port: u16) -> String {
        match self.format.as_str() {
            "openai" => format!("http://127.0.0.1:{port}/v1"),
            _ => format!("http://127.0.0.1:{port}"),
        }
    }
}
