//! A host's face: the MCP server over stdio.
//!
//! `cli` calls [`serve`]; nothing else does. rmcp's types stay inside this
//! room. The server is ready in milliseconds: it opens no database, no jail
//! and no configuration before a call needs them.

mod calls;
mod catalogue;
mod house;
mod params;
mod progress;
mod results;
mod rooms;
mod running;
mod server;
mod transport;

#[cfg(test)]
mod tests;

pub use catalogue::{Set, Toolsets};
pub use house::{Flags, House};
pub use rooms::{
    Acknowledged, AgentEntry, AgentList, AgentOrder, BackendStatus, Boxed, DeepseekOrder,
    PendingChange, Prepared, Rooms, Standing, Trouble,
};

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// How long the end waits for runs to stop. What is left then dies with the
/// process: the kernel sees to that.
const LAST_WAIT: Duration = Duration::from_secs(4);

/// How a server presents itself.
#[derive(Clone, Debug)]
pub struct Options {
    /// `serverInfo.name`.
    pub name: String,
    /// Families of tools that it shows.
    pub toolsets: Toolsets,
    /// The user's home, for short paths in texts.
    pub home: Option<PathBuf>,
}

/// Serves on stdin and stdout until the host hangs up or `stop` fires.
pub async fn serve(options: Options, rooms: Arc<dyn Rooms>, stop: CancellationToken) {
    let (input, output) = rmcp::transport::stdio_pipes();
    serve_on(input, output, options, rooms, stop).await;
}

/// Serves on any pair of streams. When it returns, every run has been told
/// to stop and, but for [`LAST_WAIT`], has stopped.
pub(crate) async fn serve_on<R, W>(
    input: R,
    output: W,
    options: Options,
    rooms: Arc<dyn Rooms>,
    stop: CancellationToken,
) where
    R: AsyncRead + Unpin + Send + 'static,
    W: AsyncWrite + Unpin + Send + 'static,
{
    // Fires on hangup as well as on `stop`, and cancels every run.
    let shutdown = stop.child_token();
    let calls = TaskTracker::new();
    let server = Arc::new(server::Server::new(
        options,
        rooms,
        shutdown.clone(),
        calls.clone(),
    ));
    let lines = transport::Lines::new(input, output, shutdown.clone());
    // Without rmcp's handshake phase, which ends the process on an unusual
    // first message: our handler answers `initialize`, `server/discover` and
    // everything else in any order.
    let service = rmcp::service::serve_directly_with_ct(
        server::Handler(server),
        lines,
        None,
        CancellationToken::new(),
    );
    let quit = service.cancellation_token();
    let mut ended = std::pin::pin!(service.waiting());
    tokio::select! {
        _ = &mut ended => {}
        () = shutdown.cancelled() => {
            // The service ends by itself when the input does; after a signal
            // it has to be told. Either way it first sends what is finished.
            if stop.is_cancelled() {
                quit.cancel();
            }
            let _ = tokio::time::timeout(LAST_WAIT, &mut ended).await;
        }
    }
    shutdown.cancel();
    calls.close();
    let _ = tokio::time::timeout(LAST_WAIT, calls.wait()).await;
}
