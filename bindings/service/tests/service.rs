//! What clients see of the service.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;

use stillpoint_service::client::Client;
use stillpoint_service::data::{Config, Data};
use stillpoint_service::http::{runtime, serve};
use support::deadline::deadline;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, yield_now};

/// Serves on a free port. The service ends when the sender is dropped.
async fn start(data: &Arc<Data>) -> (SocketAddr, oneshot::Sender<()>, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("an address");
    let (stop, stopped) = oneshot::channel();
    let service =
        tokio::spawn(serve(listener, Arc::clone(data), async { drop::<Result<(), _>>(stopped.await) }));
    (address, stop, service)
}

fn in_runtime<F: Future<Output = ()>>(test: impl FnOnce(Arc<Data>) -> F) {
    let _running = deadline();
    let data = Data::new(Config { greeting: "Hello".into() });
    runtime().expect("a runtime").block_on(test(Arc::new(data)));
}

async fn answer_requests(data: Arc<Data>) {
    let (address, stop, service) = start(&data).await;
    let mut client = Client::connect(address).await.expect("it serves");
    let session = client.ok("POST", "/sessions", "Ada").await.expect("a session");
    assert_eq!(data.sessions(), 1);
    let page = format!("/page/{session}");
    assert_eq!(client.ok("GET", &page, "").await.expect("a page"), "Hello, Ada! Visit 1.\n");
    client.ok("PUT", "/config", "Good day").await.expect("changed");
    assert_eq!(client.ok("GET", &page, "").await.expect("a page"), "Good day, Ada! Visit 2.\n");
    client.ok("DELETE", &format!("/sessions/{session}"), "").await.expect("removed");
    assert_eq!(data.sessions(), 0);
    for (method, path, body, status) in [
        ("GET", page.as_str(), "", 404),
        ("DELETE", "/sessions/0", "", 404),
        ("DELETE", "/sessions/x", "", 404),
        ("GET", "/nowhere", "", 404),
        ("PATCH", "/config", "", 405),
        ("PUT", "/config", &"x".repeat(5000), 413),
    ] {
        assert_eq!(client.request(method, path, body).await.expect("an answer").0, status, "{method} {path}");
    }
    assert_eq!(data.requests(), 11);
    drop((stop, data));
    service.await.expect("no panic");
}

/// A request has begun when the service is asked to end, and an idle connection is open.
async fn drain(data: Arc<Data>) {
    let (address, stop, service) = start(&data).await;
    let mut idle = Client::connect(address).await.expect("it serves");
    idle.ok("POST", "/sessions", "Bob").await.expect("a session");
    let mut slow = TcpStream::connect(address).await.expect("it serves");
    slow.write_all(
        b"POST /sessions HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: 3\r\n\r\n",
    )
    .await
    .expect("sent");
    // The handler asks for the body: so the request has begun.
    let mut line = [0; 25];
    slow.read_exact(&mut line).await.expect("an answer");
    assert_eq!(&line, b"HTTP/1.1 100 Continue\r\n\r\n");
    drop(stop);
    // It accepts no more connections, and still has the slow request.
    while TcpStream::connect(address).await.is_ok() {
        yield_now().await;
    }
    assert!(!service.is_finished());
    slow.write_all(b"Eve").await.expect("the connection is open");
    let mut answer = String::new();
    slow.read_to_string(&mut answer).await.expect("an answer, and the end");
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    assert!(idle.request("GET", "/page/0", "").await.is_err(), "idle connections are closed");
    assert_eq!(data.sessions(), 2);
    // The data ends when all have dropped it.
    drop(data);
    service.await.expect("no panic");
}

#[test]
fn requests_get_their_answers() {
    in_runtime(answer_requests);
}

#[test]
fn service_drains_before_it_ends() {
    in_runtime(drain);
}
