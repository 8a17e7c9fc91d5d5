//! A client that takes little CPU time: one connection, one request at a time.

use std::io;
use std::net::SocketAddr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// A connection to the service.
#[derive(Debug)]
pub struct Client(TcpStream);

impl Client {
    /// Connects to the service.
    ///
    /// # Errors
    ///
    /// If it cannot be reached.
    pub async fn connect(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self(stream))
    }

    /// Sends a request, waits for the answer, and returns its status and its body.
    ///
    /// # Errors
    ///
    /// If the connection ends, or the answer has no length.
    pub async fn request(&mut self, method: &str, path: &str, body: &str) -> io::Result<(u16, String)> {
        let length = body.len();
        let head = format!("{method} {path} HTTP/1.1\r\nhost: service\r\ncontent-length: {length}\r\n\r\n");
        self.0.write_all((head + body).as_bytes()).await?;
        let mut answer = Vec::with_capacity(4096);
        loop {
            if self.0.read_buf(&mut answer).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if let Some((status, length, body)) = parsed(&String::from_utf8_lossy(&answer))
                && body.len() >= length
            {
                return Ok((status, body.to_owned()));
            }
        }
    }

    /// [`request`](Self::request), whose answer must be 200.
    ///
    /// # Errors
    ///
    /// As there, and if the status is another.
    pub async fn ok(&mut self, method: &str, path: &str, body: &str) -> io::Result<String> {
        match self.request(method, path, body).await? {
            (200, body) => Ok(body),
            (status, body) => Err(io::Error::other(format!("{method} {path}: {status} {body}"))),
        }
    }
}

/// Returns the status of an answer, the length of its body, and what there is of it. `None` while the head is not
/// complete.
fn parsed(answer: &str) -> Option<(u16, usize, &str)> {
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "))?;
    Some((head.split(' ').nth(1)?.parse().ok()?, length.parse().ok()?, body))
}
