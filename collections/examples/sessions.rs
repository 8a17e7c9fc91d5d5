//! Sessions of an asynchronous server: a task finds its session in a map, and keeps the reference across `.await`.
//!
//! With a map behind locks that would deadlock: a task that sleeps with the reference holds the lock of a part of the
//! map, and the next task that changes that part blocks its thread, and with it the tasks that the first one waits
//! for. Here a reference keeps a section of an [`srcu::Domain`] open. Other tasks change the map, even the entry
//! itself; its memory is freed when the guard is gone.
//!
//! ```sh
//! cargo run -p stillpoint-collections --example sessions
//! ```

use std::collections::hash_map::RandomState;
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use stillpoint::srcu;
use stillpoint_collections::HashMap;
use tokio::runtime::Builder;
use tokio::sync::{Barrier, mpsc};

const SESSIONS: usize = 64;
const MESSAGES: u64 = 8;

struct Session {
    user: String,
    received: AtomicU64,
}

type Sessions = HashMap<usize, Session, RandomState, srcu::Domain>;

/// Receives messages, with one reference to the session from the first to the last.
async fn serve(
    sessions: Arc<Sessions>,
    id: usize,
    mut messages: mpsc::Receiver<u64>,
    found: Arc<Barrier>,
) -> u64 {
    let guard = sessions.domain().enter_owned();
    let Some(session) = sessions.get(&id, &guard) else { return 0 };
    // Now all tasks have references, on a single thread.
    found.wait().await;
    while let Some(message) = messages.recv().await {
        session.received.fetch_add(message, Relaxed);
    }
    assert_eq!(session.user, format!("user {id}"));
    session.received.load(Relaxed)
}

async fn run() -> Result<(), Box<dyn Error + Send + Sync>> {
    let sessions = Arc::new(Sessions::new_in(srcu::Domain::new()));
    let found = Arc::new(Barrier::new(SESSIONS + 1));
    let (mut tasks, mut senders) = (Vec::new(), Vec::new());
    for id in 0..SESSIONS {
        let session = Session { user: format!("user {id}"), received: AtomicU64::new(0) };
        sessions.insert(id, session, &sessions.domain().enter());
        let (sender, messages) = mpsc::channel(1);
        senders.push(sender);
        tasks.push(tokio::spawn(serve(Arc::clone(&sessions), id, messages, Arc::clone(&found))));
    }
    found.wait().await;
    // While each session is referenced, all are replaced, and then removed.
    sessions.reserve(10 * SESSIONS, &sessions.domain().enter());
    for id in 0..SESSIONS {
        let next = Session { user: "the next one".into(), received: AtomicU64::new(0) };
        sessions.insert(id, next, &sessions.domain().enter());
    }
    sessions.clear(&sessions.domain().enter());
    for message in 1..=MESSAGES {
        for sender in &senders {
            sender.send(message).await?;
        }
    }
    drop(senders);
    let mut received = 0;
    for task in tasks {
        received += task.await?;
    }
    assert_eq!(received, SESSIONS as u64 * MESSAGES * (MESSAGES + 1) / 2);
    println!("{SESSIONS} tasks kept their sessions across {MESSAGES} waits, while the map changed");
    Ok(())
}

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    // One worker thread: a task that blocked it would never be released.
    Builder::new_multi_thread().worker_threads(1).build()?.block_on(async { tokio::spawn(run()).await? })
}
