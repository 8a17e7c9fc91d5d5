//! A service that measures every request, and tells over HTTP, in the format that Prometheus reads.
//!
//! Each request adds to counters and to a histogram of its CPU, without a locked instruction; whoever asks for `/metrics` pays
//! for putting them together.
//!
//! ```sh
//! cargo run -p stillpoint --example metrics_endpoint                    # asks itself, and checks the answer
//! cargo run -p stillpoint --example metrics_endpoint -- 127.0.0.1:9100  # for ever: curl http://127.0.0.1:9100/metrics
//! ```

use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use std::{env, thread};

use stillpoint::percpu::{Counter, Histogram};
use tiny_http::{Response, Server};

const WORKERS: usize = 4;

static REQUESTS: Counter = Counter::new();
static IN_FLIGHT: Counter<i64> = Counter::signed();
static LATENCY: Histogram = Histogram::new();
static NANOSECONDS: Counter = Counter::new();

/// A request: work that takes longer now and then.
fn request(number: u64) {
    IN_FLIGHT.add(1);
    let begun = Instant::now();
    let rounds = if number.is_multiple_of(100) { 100_000 } else { 1000 };
    std::hint::black_box(
        (0..rounds).fold(number, |hash, round| (hash ^ round).wrapping_mul(0x100_0000_01b3)),
    );
    let took = begun.elapsed().as_nanos() as u64;
    LATENCY.record(took);
    NANOSECONDS.add(took);
    REQUESTS.add(1);
    IN_FLIGHT.add(-1);
}

/// What `/metrics` says.
fn metrics() -> String {
    // In this order, so that no request is in the histogram and not in the counter.
    let latency = LATENCY.snapshot();
    let (requests, in_flight) = (REQUESTS.sum(), IN_FLIGHT.sum());
    let mut text = format!(
        "# TYPE requests_total counter\nrequests_total {requests}\n\
         # TYPE requests_in_flight gauge\nrequests_in_flight {in_flight}\n\
         # TYPE request_seconds histogram\n"
    );
    let mut count = 0;
    for (_, highest, requests) in latency.buckets() {
        count += requests;
        let seconds = highest as f64 / 1e9;
        let _ = writeln!(text, "request_seconds_bucket{{le=\"{seconds}\"}} {count}");
    }
    let _ = writeln!(text, "request_seconds_bucket{{le=\"+Inf\"}} {count}");
    let _ = writeln!(text, "request_seconds_sum {}", NANOSECONDS.sum() as f64 / 1e9);
    let _ = writeln!(text, "request_seconds_count {count}");
    text
}

/// Answers until the server is unblocked.
fn serve(server: &Server) {
    for request in server.incoming_requests() {
        let response = match request.url() {
            "/metrics" => Response::from_string(metrics()),
            _ => Response::from_string("see /metrics\n").with_status_code(404),
        };
        // Who asked may be gone.
        let _ = request.respond(response);
    }
}

/// What `curl` would print.
fn get(server: SocketAddr, path: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(server)?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {server}\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// The value of a metric.
fn value(answer: &str, metric: &str) -> f64 {
    let value = answer.lines().find_map(|line| line.strip_prefix(metric)?.strip_prefix(' '));
    value.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("no {metric} in:\n{answer}"))
}

fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let address = env::args().nth(1);
    let server = Server::http(address.as_deref().unwrap_or("127.0.0.1:0"))?;
    let at = server.server_addr().to_ip().expect("it listens at an IP address");
    println!("http://{at}/metrics");

    let stop = AtomicBool::new(false);
    let (first, last, made) = thread::scope(|scope| {
        let work = || (0..).take_while(|_| !stop.load(Relaxed)).inspect(|&number| request(number)).count();
        let workers: Vec<_> = (0..WORKERS).map(|_| scope.spawn(work)).collect();
        if address.is_some() {
            serve(&server);
        }
        scope.spawn(|| serve(&server));
        let first = get(at, "/metrics");
        thread::sleep(Duration::from_millis(500));
        stop.store(true, Relaxed);
        let made: usize = workers.into_iter().map(|worker| worker.join().expect("no request fails")).sum();
        let last = get(at, "/metrics");
        server.unblock();
        (first, last, made)
    });
    let (first, last) = (first?, last?);
    print!("{}", last.split("\r\n\r\n").nth(1).unwrap_or_default());
    assert!(value(&first, "requests_total") <= value(&last, "requests_total"));
    assert_eq!(value(&last, "requests_total"), made as f64);
    assert_eq!(value(&last, "request_seconds_count"), made as f64);
    assert_eq!(value(&last, "requests_in_flight"), 0.0);
    Ok(())
}
