//! A service that measures every request, and reports over HTTP in the format of Prometheus.
//!
//! Each request adds to counters and to a histogram of its CPU, without a locked instruction. A request for
//! `/metrics` pays for the summation.
//!
//! ```sh
//! cargo run -p stillpoint --example metrics_endpoint                    # queries itself, and checks the answer
//! cargo run -p stillpoint --example metrics_endpoint -- 127.0.0.1:9100  # then: curl http://127.0.0.1:9100/metrics
//! ```

use std::fmt::Write as _;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use std::{env, thread};

use stillpoint::percpu::{Counter, Histogram};

const WORKERS: usize = 4;

/// The upper bounds of the buckets, in nanoseconds: the same at each scrape, as rates of buckets need it.
const BOUNDS: [u64; 6] = [1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000];

static REQUESTS: Counter = Counter::new();
static IN_FLIGHT: Counter<i64> = Counter::new();
static LATENCY: Histogram = Histogram::new();

/// Handles a request, which takes longer now and then.
fn request(number: u64) {
    IN_FLIGHT.add(1);
    let begun = Instant::now();
    let rounds = if number % 100 == 0 { 100_000 } else { 1000 };
    std::hint::black_box(
        (0..rounds).fold(number, |hash, round| (hash ^ round).wrapping_mul(0x100_0000_01b3)),
    );
    LATENCY.record(begun.elapsed().as_nanos() as u64);
    REQUESTS.inc();
    IN_FLIGHT.add(-1);
}

/// Returns the text of `/metrics`.
fn metrics() -> String {
    // Counters first: a request in the sum was recorded in the histogram before.
    let (requests, in_flight) = (REQUESTS.get(), IN_FLIGHT.get());
    let latency = LATENCY.snapshot();
    let mut text = format!(
        "# TYPE requests_total counter\nrequests_total {requests}\n\
         # TYPE requests_in_flight gauge\nrequests_in_flight {in_flight}\n\
         # TYPE request_seconds histogram\n"
    );
    let count = latency.count();
    for (bound, count) in latency.cumulative(BOUNDS) {
        let seconds = bound as f64 / 1e9;
        let _ = writeln!(text, "request_seconds_bucket{{le=\"{seconds}\"}} {count}");
    }
    let _ = writeln!(text, "request_seconds_bucket{{le=\"+Inf\"}} {count}");
    let _ = writeln!(text, "request_seconds_sum {}", latency.sum() as f64 / 1e9);
    let _ = writeln!(text, "request_seconds_count {count}");
    text
}

/// Answers one request.
fn answer(stream: TcpStream) -> io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(1)))?;
    let mut head = BufReader::new(&stream).take(8192).lines();
    let request = head.next().unwrap_or_else(|| Ok(String::new()))?;
    // Reads up to the empty line: closing a connection with unread data resets it.
    while head.next().transpose()?.is_some_and(|line| !line.is_empty()) {}
    let (status, text) = match request.split(' ').nth(1) {
        Some("/metrics") => ("200 OK", metrics()),
        _ => ("404 Not Found", "see /metrics\n".to_owned()),
    };
    let length = text.len();
    write!(
        &stream,
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n{text}"
    )
}

/// Answers requests one after the other, for ever.
fn serve(listener: &TcpListener) {
    for stream in listener.incoming() {
        if let Err(error) = stream.and_then(answer) {
            eprintln!("not answered: {error}");
        }
    }
}

/// Fetches a page, as `curl` does.
fn get(server: SocketAddr, path: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(server)?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {server}\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// Returns the value of a metric.
fn value(answer: &str, metric: &str) -> f64 {
    let value = answer.lines().find_map(|line| line.strip_prefix(metric)?.strip_prefix(' '));
    value.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("no {metric} in:\n{answer}"))
}

/// Returns the bounds of the buckets.
fn bounds(answer: &str) -> Vec<&str> {
    let bucket = |line| str::strip_prefix(line, "request_seconds_bucket")?.split(' ').next();
    answer.lines().filter_map(bucket).collect()
}

fn main() -> io::Result<()> {
    let address = env::args().nth(1);
    let listener = TcpListener::bind(address.as_deref().unwrap_or("127.0.0.1:0"))?;
    let at = listener.local_addr()?;
    println!("http://{at}/metrics");
    // It runs until the process ends.
    let server = thread::spawn(move || serve(&listener));

    let stop = AtomicBool::new(false);
    let (first, last, made) = thread::scope(|scope| {
        let work = || (0..).take_while(|_| !stop.load(Relaxed)).inspect(|&number| request(number)).count();
        let workers: Vec<_> = (0..WORKERS).map(|_| scope.spawn(work)).collect();
        if address.is_some() {
            server.join().expect("the server does not end");
        }
        let first = get(at, "/metrics");
        thread::sleep(Duration::from_millis(500));
        stop.store(true, Relaxed);
        let made: usize = workers.into_iter().map(|worker| worker.join().expect("no request fails")).sum();
        (first, get(at, "/metrics"), made)
    });
    let (first, last) = (first?, last?);
    print!("{}", last.split("\r\n\r\n").nth(1).unwrap_or_default());
    assert!(get(at, "/")?.contains(" 404 "));
    assert!(value(&first, "requests_total") <= value(&last, "requests_total"));
    assert_eq!(bounds(&first), bounds(&last));
    assert_eq!(value(&last, "requests_total"), made as f64);
    assert_eq!(value(&last, "request_seconds_count"), made as f64);
    assert_eq!(value(&last, "requests_in_flight"), 0.0);
    Ok(())
}
