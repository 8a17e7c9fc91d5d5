//! The service by itself. With an address it serves until `SIGINT` or `SIGTERM`; without one it serves a hundred
//! clients of its own, while its configuration changes, and ends.
//!
//! ```sh
//! cargo run -p stillpoint-service --features service --bin service -- 127.0.0.1:8080
//! ```

use std::env;
use std::error::Error;
use std::net::SocketAddr;
use std::process;
use std::sync::Arc;
use std::time::Duration;

use stillpoint::statistics_page;
use stillpoint_service::client::Client;
use stillpoint_service::data::{Config, Data};
use stillpoint_service::http::{runtime, serve};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

const CLIENTS: u64 = 100;
const VISITS: u64 = 100;

fn main() -> Result<()> {
    let data = Arc::new(Data::new(Config { greeting: "Hello".into() }));
    runtime()?.block_on(async {
        let Some(address) = env::args().nth(1) else { return demonstrate(data).await };
        let listener = TcpListener::bind(&address).await?;
        // Before the address is printed: it tells others that they may send signals.
        let (mut interrupt, mut terminate) =
            (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        println!("serving on {}", listener.local_addr()?);
        match statistics_page::publish(Duration::from_millis(250)) {
            Ok(()) => println!("statistics: stillpoint top {}", process::id()),
            Err(error) => println!("no statistics: {error}"),
        }
        let stop = async {
            tokio::select! {
                _ = interrupt.recv() => (),
                _ = terminate.recv() => (),
            }
        };
        // Ends with the barrier of the domain.
        serve(listener, data, stop).await;
        println!("all requests have ended, and all data is freed");
        Ok(())
    })
}

async fn demonstrate(data: Arc<Data>) -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let (stop, stopped) = oneshot::channel::<()>();
    let service = tokio::spawn(serve(listener, Arc::clone(&data), async { drop(stopped.await) }));
    let mut clients = JoinSet::new();
    for number in 0..CLIENTS {
        clients.spawn(visit(address, number));
    }
    let mut control = Client::connect(address).await?;
    let mut changes = 0;
    while !clients.is_empty() {
        control.ok("PUT", "/config", &format!("Hello {changes}")).await?;
        changes += 1;
        while let Some(client) = clients.try_join_next() {
            client??;
        }
    }
    // The service stops when the channel is closed, and need not wait for this client.
    drop((control, stop));
    service.await?;
    println!("{CLIENTS} clients saw {VISITS} pages each, during {changes} changes of the configuration");
    println!("{} requests in all", data.requests());
    Ok(())
}

async fn visit(address: SocketAddr, number: u64) -> Result<()> {
    let mut client = Client::connect(address).await?;
    let session = client.ok("POST", "/sessions", &format!("user {number}")).await?;
    for visit in 1..=VISITS {
        let page = client.ok("GET", &format!("/page/{session}"), "").await?;
        assert!(page.ends_with(&format!(", user {number}! Visit {visit}.\n")), "{page}");
    }
    client.ok("DELETE", &format!("/sessions/{session}"), "").await?;
    Ok(())
}
