//! Measures the service on either data: requests over loopback, and the data alone.
//!
//! Each service is a process of its own, with two worker threads; this process has the clients, in one thread. Rounds are
//! interleaved: in each round, each shape is measured for one service, then for the other, in turn. Printed are medians of the
//! rounds; a ratio is the median of the ratios within a round, with their extremes.
//!
//! - `pages`: each request is a page of one of 10,000 sessions. The configuration changes twenty times a second.
//! - `churn`: a login, a page and a logout, and so on.
//!
//! CPU time is that of the service's process, all threads and the kernel included. The part `data` calls the same
//! functions from two threads, without HTTP: the CPU time of an operation, with the counts of the request, and with the
//! worker threads of the library.
//!
//! ```sh
//! cargo run --release -p stillpoint-service --features service --bin load -- SECONDS ROUNDS CONNECTIONS
//! ```

use std::env;
use std::error::Error;
use std::io::{BufRead as _, BufReader, Read as _};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use stillpoint_service::client::Client;
use stillpoint_service::cpu;
use stillpoint_service::data::{Config, Data};
use stillpoint_service::http::{runtime, serve};
use stillpoint_service::on_others::OnOthers;
use stillpoint_service::on_stillpoint::OnStillpoint;
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::sleep;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

const SESSIONS: usize = 10_000;
const CHANGES: Duration = Duration::from_millis(50);
/// Operations of the data part between two looks at the clock.
const BATCH: usize = 256;

#[derive(Clone, Copy)]
enum Shape {
    Pages,
    Churn,
}

const SHAPES: [(&str, Shape); 2] = [("pages", Shape::Pages), ("churn", Shape::Churn)];

/// What is measured of a service in a round, in the order of `HTTP` or of `DATA`.
type Figures = Vec<f64>;

const HTTP: [&str; 4] = ["CPU us/request", "requests/s", "p50 us", "p99.9 us"];
const DATA: [&str; 1] = ["CPU ns/operation"];

fn main() -> Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["serve", OnStillpoint::NAME] => serve_until_input_ends::<OnStillpoint>(),
        ["serve", OnOthers::NAME] => serve_until_input_ends::<OnOthers>(),
        [] => measure(1.0, 5, 32),
        [seconds, rounds, connections] => measure(seconds.parse()?, rounds.parse()?, connections.parse()?),
        _ => Err("load [SECONDS ROUNDS CONNECTIONS]".into()),
    }
}

/// The service's process, which ends when its standard input does, as it does when its parent has ended.
fn serve_until_input_ends<D: Data>() -> Result<()> {
    runtime::<D>()?.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        println!("{}", listener.local_addr()?);
        let input_ends = async {
            let _ = spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new())).await;
        };
        serve(listener, Arc::new(D::new(Config { greeting: "Hello".into() })), input_ends).await;
        Ok(())
    })
}

/// A service, its address and its sessions.
struct Service {
    process: Child,
    address: SocketAddr,
    sessions: Vec<String>,
}

impl Service {
    async fn start(name: &str) -> Result<Self> {
        let mut process = Command::new(env::current_exe()?)
            .args(["serve", name])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        BufReader::new(process.stdout.take().ok_or("no output")?).read_line(&mut line)?;
        let address = line.trim().parse()?;
        let (mut client, mut sessions) = (Client::connect(address).await?, Vec::new());
        for number in 0..SESSIONS {
            let session = client.ok("POST", "/sessions", &format!("user {number}")).await?;
            sessions.push(format!("/page/{session}"));
        }
        Ok(Self { process, address, sessions })
    }

    async fn measure(&self, shape: Shape, time: Duration, connections: usize) -> Result<Figures> {
        let mut control = Client::connect(self.address).await?;
        let mut clients = Vec::new();
        for _ in 0..connections {
            clients.push(Client::connect(self.address).await?);
        }
        let (cpu, begin) = (cpu_of(&mut control).await?, Instant::now());
        let end = begin + time;
        let mut tasks = JoinSet::new();
        for client in clients {
            tasks.spawn(request_until(client, end, shape, self.sessions.clone()));
        }
        while matches!(shape, Shape::Pages) && Instant::now() < end {
            control.ok("PUT", "/config", "Hello again").await?;
            sleep(CHANGES).await;
        }
        let mut latencies = Vec::new();
        while let Some(task) = tasks.join_next().await {
            latencies.extend(task??);
        }
        let (cpu, took) = (cpu_of(&mut control).await? - cpu, begin.elapsed());
        latencies.sort_unstable();
        let count = latencies.len();
        let quantile = |part: f64| latencies[((count - 1) as f64 * part) as usize].as_secs_f64() * 1e6;
        Ok(vec![cpu / count as f64 / 1e3, count as f64 / took.as_secs_f64(), quantile(0.5), quantile(0.999)])
    }

    fn stop(mut self) -> Result<()> {
        drop(self.process.stdin.take());
        let status = self.process.wait()?;
        if status.success() { Ok(()) } else { Err(format!("a service has failed: {status}").into()) }
    }
}

async fn cpu_of(client: &mut Client) -> Result<f64> {
    Ok(client.ok("GET", "/cpu", "").await?.parse()?)
}

async fn request_until(
    mut client: Client,
    end: Instant,
    shape: Shape,
    sessions: Vec<String>,
) -> Result<Vec<Duration>> {
    let mut latencies = Vec::new();
    let mut begin = Instant::now();
    let mut ended = |latencies: &mut Vec<Duration>| {
        let now = Instant::now();
        latencies.push(now - begin);
        begin = now;
        now >= end
    };
    loop {
        match shape {
            Shape::Pages => {
                client.ok("GET", &sessions[fastrand::usize(..sessions.len())], "").await?;
            }
            Shape::Churn => {
                let session = client.ok("POST", "/sessions", "a user").await?.to_owned();
                ended(&mut latencies);
                client.ok("GET", &format!("/page/{session}"), "").await?;
                ended(&mut latencies);
                client.ok("DELETE", &format!("/sessions/{session}"), "").await?;
            }
        }
        if ended(&mut latencies) {
            return Ok(latencies);
        }
    }
}

/// The data alone: returns the CPU time of an operation (a page, or a login, a page and a logout).
fn measure_data<D: Data>(shape: Shape, time: Duration) -> Figures {
    let data = D::new(Config { greeting: "Hello".into() });
    let sessions: Vec<u64> = (0..SESSIONS).map(|_| fastrand::u64(..)).collect();
    sessions.iter().for_each(|session| data.login(*session, format!("user {session}")));
    let stop = AtomicBool::new(false);
    let cpu = cpu::of_process();
    let operate = || {
        let (mut operations, mut page) = (0, Vec::with_capacity(128));
        // Relaxed: ends the loop some time.
        while !stop.load(Relaxed) {
            for _ in 0..BATCH {
                page.clear();
                match shape {
                    Shape::Pages => {
                        assert!(data.page(sessions[fastrand::usize(..SESSIONS)], &mut page));
                        data.count(Duration::from_micros(5));
                    }
                    Shape::Churn => {
                        let session = fastrand::u64(..);
                        data.login(session, "a user".into());
                        data.count(Duration::from_micros(5));
                        assert!(data.page(session, &mut page));
                        data.count(Duration::from_micros(5));
                        assert!(data.logout(session));
                        data.count(Duration::from_micros(5));
                    }
                }
            }
            operations += BATCH;
        }
        operations
    };
    let operations: usize = thread::scope(|s| {
        let threads = [s.spawn(operate), s.spawn(operate)];
        let end = Instant::now() + time;
        while Instant::now() < end {
            thread::sleep(CHANGES);
            data.configure(Config { greeting: "Hello again".into() });
        }
        stop.store(true, Relaxed);
        threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
    });
    vec![(cpu::of_process() - cpu).as_nanos() as f64 / operations as f64]
}

fn measure(seconds: f64, rounds: usize, connections: usize) -> Result<()> {
    if rounds == 0 || connections == 0 {
        return Err("there is nothing to measure".into());
    }
    let time = Duration::try_from_secs_f64(seconds)?;
    let clients = Builder::new_current_thread().enable_all().build()?;
    let services = clients.block_on(async {
        Ok::<_, Box<dyn Error + Send + Sync>>([
            Service::start(OnStillpoint::NAME).await?,
            Service::start(OnOthers::NAME).await?,
        ])
    })?;
    println!("{connections} connections, medians of {rounds} rounds of {seconds} s\n");
    println!("| | {} | {} | ratio | min..max |\n|---|--:|--:|--:|---|", OnStillpoint::NAME, OnOthers::NAME);
    for (name, shape) in SHAPES {
        let mut http = Vec::new();
        for round in 0..rounds {
            let measure = |index: usize| clients.block_on(services[index].measure(shape, time, connections));
            http.push(in_turn(round, measure)?);
        }
        print_rows(name, &HTTP, &http);
    }
    services.into_iter().try_for_each(Service::stop)?;
    for (name, shape) in SHAPES {
        let measure = |index: usize| match index {
            0 => Ok(measure_data::<OnStillpoint>(shape, time)),
            _ => Ok(measure_data::<OnOthers>(shape, time)),
        };
        let data = (0..rounds).map(|round| in_turn(round, measure)).collect::<Result<Vec<_>>>()?;
        print_rows(&format!("data of {name}"), &DATA, &data);
    }
    Ok(())
}

/// Measures both, the one first that was last in the round before.
fn in_turn(round: usize, measure: impl Fn(usize) -> Result<Figures>) -> Result<[Figures; 2]> {
    if round % 2 == 0 {
        return Ok([measure(0)?, measure(1)?]);
    }
    let others = measure(1)?;
    Ok([measure(0)?, others])
}

fn print_rows(name: &str, figures: &[&str], rounds: &[[Figures; 2]]) {
    for (index, figure) in figures.iter().enumerate() {
        let median_of = |value: &dyn Fn(&[Figures; 2]) -> f64| {
            let mut values: Vec<f64> = rounds.iter().map(value).collect();
            values.sort_unstable_by(f64::total_cmp);
            (values[values.len() / 2], values[0], values[values.len() - 1])
        };
        let (ours, ..) = median_of(&|round| round[0][index]);
        let (theirs, ..) = median_of(&|round| round[1][index]);
        let (ratio, min, max) = median_of(&|round| round[0][index] / round[1][index]);
        println!("| {name}: {figure} | {ours:.1} | {theirs:.1} | {ratio:.2}x | {min:.2}..{max:.2} |");
    }
}
