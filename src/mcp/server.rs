//! The service behind the protocol: handshake, list, calls.

use std::path::PathBuf;
use std::sync::Arc;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, CustomRequest,
    CustomResult, ErrorCode, Implementation, InitializeRequestParams, InitializeResult,
    ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::catalogue::{self, Act, Toolsets};
use super::params::{self, Args};
use super::rooms::{Rooms, Trouble};
use super::running::{Entered, Running};
use super::{Options, calls, results};

/// One server; cheap to share between its calls.
pub(super) struct Server {
    pub(super) rooms: Arc<dyn Rooms>,
    pub(super) home: Option<PathBuf>,
    name: String,
    toolsets: Toolsets,
    /// One DeepSeek execution at a time in this process.
    pub(super) deepseek: Arc<Semaphore>,
    /// Delegations under way.
    pub(super) running: Running,
    /// Fires when the host hangs up or a signal asks for the end.
    pub(super) shutdown: CancellationToken,
    /// Calls under way, so that the end can wait for them.
    pub(super) calls: TaskTracker,
}

impl Server {
    pub(super) fn new(
        options: Options,
        rooms: Arc<dyn Rooms>,
        shutdown: CancellationToken,
        calls: TaskTracker,
    ) -> Server {
        Server {
            rooms,
            home: options.home,
            name: options.name,
            toolsets: options.toolsets,
            deepseek: Arc::new(Semaphore::new(1)),
            running: Running::default(),
            shutdown,
            calls,
        }
    }

    fn info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(
                Implementation::new(self.name.clone(), env!("CARGO_PKG_VERSION"))
                    .with_title("delegate"),
            )
            .with_instructions(catalogue::instructions(&self.toolsets))
    }
}

/// A handle that rmcp can own while calls keep the server alive.
pub(super) struct Handler(pub(super) Arc<Server>);

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        self.0.info()
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        let answer = self.negotiate_initialize(&request)?;
        // What later requests of this session are judged by.
        let mut peer = request;
        peer.protocol_version = answer.protocol_version.clone();
        context.peer.set_peer_info(peer);
        Ok(answer)
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(catalogue::tools(
            &self.0.toolsets,
        )))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(entry) = catalogue::find(&self.0.toolsets, &request.name) else {
            return Err(ErrorData::invalid_params(
                format!("there is no tool `{}`", request.name.escape_debug()),
                None,
            ));
        };
        let args = match params::check(entry.params, request.arguments.as_ref()) {
            Ok(args) => args,
            Err(why) => {
                let text = format!("{} was not called: {why}", entry.name);
                return Ok(CallToolResult::error(vec![ContentBlock::text(text)]).into());
            }
        };
        let server = Arc::clone(&self.0);
        let act = entry.act;
        // A task of its own: a panic in a room below must not leave the host
        // without an answer.
        let call = self
            .0
            .calls
            .spawn(async move { server.act(act, args, context).await });
        match call.await {
            Ok(result) => Ok(result.into()),
            Err(_) => Ok(CallToolResult::error(vec![ContentBlock::text(
                "ERROR: delegate failed inside; its standard error says where. Nothing of this call is running any more.",
            )])
            .into()),
        }
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        // Known methods come here when their parameters do not fit.
        if ["tools/call", "initialize", "server/discover", "tools/list"]
            .contains(&request.method.as_str())
        {
            return Err(ErrorData::invalid_params(
                format!("the parameters of {} do not fit", request.method),
                None,
            ));
        }
        Err(ErrorData::new(
            ErrorCode::METHOD_NOT_FOUND,
            format!("there is no method `{}`", request.method.escape_debug()),
            None,
        ))
    }
}

impl Server {
    async fn act(
        self: Arc<Self>,
        act: Act,
        args: Args,
        context: RequestContext<RoleServer>,
    ) -> CallToolResult {
        match act {
            Act::Agent => calls::agent(&self, &args, context).await,
            Act::Coding => {
                calls::deepseek(&self, crate::tools::Capability::Coding, &args, context).await
            }
            Act::Readonly => {
                calls::deepseek(&self, crate::tools::Capability::Readonly, &args, context).await
            }
            Act::Ping => {
                let standing = self.blocking(|rooms| Ok(rooms.standing())).await;
                match standing {
                    Ok(standing) => results::ping(&standing, self.home.as_deref()),
                    Err(trouble) => results::recovery_trouble(&trouble),
                }
            }
            Act::Agents => match self.blocking(|rooms| Ok(rooms.agents())).await {
                Ok(list) => results::agents(list),
                Err(trouble) => results::recovery_trouble(&trouble),
            },
            Act::Status => {
                tokio::select! {
                    status = self.rooms.status() => results::as_json(&status),
                    () = context.ct.cancelled() => results::recovery_trouble(
                        &Trouble::Other("cancelled".to_owned()),
                    ),
                }
            }
            Act::Recovery => match self.blocking(|rooms| rooms.pending()).await {
                Ok(pending) => results::recovery(&pending),
                Err(trouble) => results::recovery_trouble(&trouble),
            },
            Act::Acknowledge => {
                let ids = args.texts("transaction_ids");
                let entered = self.running.enter(context.ct.clone());
                let done = self
                    .when_free(&entered, move |rooms| rooms.acknowledge(&ids))
                    .await;
                match done {
                    Ok(done) => results::acknowledged(done),
                    Err(trouble) => results::recovery_trouble(&trouble),
                }
            }
        }
    }

    /// Asks a room that needs the workspace; once more when only a run that
    /// was just cancelled held it.
    pub(super) async fn when_free<T: Send + 'static>(
        &self,
        entered: &Entered<'_>,
        ask: impl Fn(&dyn Rooms) -> Result<T, Trouble> + Clone + Send + 'static,
    ) -> Result<T, Trouble> {
        match self.blocking(ask.clone()).await {
            Err(Trouble::Busy(_)) if entered.others_stopped().await => self.blocking(ask).await,
            answer => answer,
        }
    }

    /// Asks a room that may block.
    pub(super) async fn blocking<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&dyn Rooms) -> Result<T, Trouble> + Send + 'static,
    ) -> Result<T, Trouble> {
        let rooms = Arc::clone(&self.rooms);
        tokio::task::spawn_blocking(move || ask(&*rooms))
            .await
            .unwrap_or_else(|_| Err(Trouble::Other("a room failed inside".to_owned())))
    }
}
