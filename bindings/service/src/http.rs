//! The service: requests, connections, and its end.
//!
//! | request | answer |
//! |---|---|
//! | `POST /sessions`, the body is the name of a user | the number of the new session |
//! | `GET /page/SESSION` | the user's page |
//! | `DELETE /sessions/SESSION` | |
//! | `PUT /config`, the body is a greeting | |

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use hyper_util::server::graceful::GracefulShutdown;
use stillpoint_tokio::BuilderExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::data::{Config, Data};

/// The longest body of a request, in bytes.
const MAX_BODY: usize = 4096;
/// How long requests may take when the service ends. Then they are cut off.
const DRAIN: Duration = Duration::from_secs(10);

/// Creates a runtime for the service: two worker threads.
///
/// # Errors
///
/// If the system has no threads or descriptors left.
pub fn runtime() -> io::Result<Runtime> {
    // Grace periods do not look at workers that park.
    Builder::new_multi_thread().worker_threads(2).enable_all().hint_idle_on_park().build()
}

/// Serves until `stop` is ready. Then finishes the requests that have begun, and shuts the data down.
pub async fn serve(listener: TcpListener, data: Arc<Data>, stop: impl Future<Output = ()>) {
    let (mut connections, graceful) = (JoinSet::new(), GracefulShutdown::new());
    let mut stop = std::pin::pin!(stop);
    loop {
        tokio::select! {
            () = &mut stop => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => connect(stream, Arc::clone(&data), &mut connections, &graceful),
                Err(error) => {
                    eprintln!("cannot accept a connection: {error}");
                    // Mostly for want of descriptors, which connections free when they end.
                    sleep(Duration::from_millis(10)).await;
                }
            },
        }
        while connections.try_join_next().is_some() {}
    }
    drop(listener);
    if timeout(DRAIN, graceful.shutdown()).await.is_err() {
        eprintln!("some requests have not ended after {DRAIN:?}");
    }
    // Waits for all tasks, those that it cuts off too: then none has the data any more.
    connections.shutdown().await;
    data.shut_down().await;
}

fn connect(stream: TcpStream, data: Arc<Data>, connections: &mut JoinSet<()>, graceful: &GracefulShutdown) {
    // An answer is one write.
    if let Err(error) = stream.set_nodelay(true) {
        return eprintln!("a connection ended at once: {error}");
    }
    let service = service_fn(move |request| {
        let data = Arc::clone(&data);
        async move {
            data.count();
            let (status, body) = answer(&data, request).await;
            let mut response = Response::new(Full::new(Bytes::from(body)));
            *response.status_mut() = status;
            Ok::<_, Infallible>(response)
        }
    });
    let connection = graceful.watch(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
    connections.spawn(async move {
        // An error is the client's: it has closed the connection, or sends no HTTP.
        let _ = connection.await;
    });
}

async fn answer(data: &Data, request: Request<Incoming>) -> (StatusCode, Vec<u8>) {
    let none = |status| (status, Vec::new());
    let (head, body) = request.into_parts();
    let path = head.uri.path();
    let number = |prefix: &str| path.strip_prefix(prefix).and_then(|number| number.parse().ok());
    match (&head.method, path) {
        (&Method::GET, _) => {
            let mut page = Vec::with_capacity(128);
            match number("/page/").is_some_and(|session| data.page(session, &mut page)) {
                true => (StatusCode::OK, page),
                false => none(StatusCode::NOT_FOUND),
            }
        }
        (&Method::POST, "/sessions") => match text(body).await {
            Ok(user) => {
                let session = fastrand::u64(..);
                data.login(session, user);
                (StatusCode::OK, session.to_string().into_bytes())
            }
            Err(status) => none(status),
        },
        (&Method::PUT, "/config") => match text(body).await {
            Ok(greeting) => {
                data.configure(Config { greeting });
                none(StatusCode::OK)
            }
            Err(status) => none(status),
        },
        (&Method::DELETE, _) => match number("/sessions/").is_some_and(|session| data.logout(session)) {
            true => none(StatusCode::OK),
            false => none(StatusCode::NOT_FOUND),
        },
        _ => none(StatusCode::METHOD_NOT_ALLOWED),
    }
}

async fn text(body: Incoming) -> Result<String, StatusCode> {
    let bytes = Limited::new(body, MAX_BODY).collect().await.map_err(|_| StatusCode::PAYLOAD_TOO_LARGE)?;
    String::from_utf8(bytes.to_bytes().into()).map_err(|_| StatusCode::BAD_REQUEST)
}
