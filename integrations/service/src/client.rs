//! A client that takes little CPU time: one connection, one request at a time.

use std::io;
use std::net::SocketAddr;
use std::str;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// A connection to the service.
#[derive(Debug)]
pub struct Client {
    stream: TcpStream,
    sent: Vec<u8>,
    received: Vec<u8>,
}

impl Client {
    /// Connects to the service.
    ///
    /// # Errors
    ///
    /// If it cannot be reached.
    pub async fn connect(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, sent: Vec::new(), received: Vec::with_capacity(4096) })
    }

    /// Sends a request, waits for the answer, and returns its status and its body.
    ///
    /// # Errors
    ///
    /// If the connection ends, or the answer has no length.
    pub async fn request(&mut self, method: &str, path: &str, body: &str) -> io::Result<(u16, &str)> {
        self.sent.clear();
        let length = body.len();
        io::Write::write_fmt(
            &mut self.sent,
            format_args!(
                "{method} {path} HTTP/1.1\r\nhost: service\r\ncontent-length: {length}\r\n\r\n{body}"
            ),
        )?;
        self.stream.write_all(&self.sent).await?;
        self.received.clear();
        let (status, body) = loop {
            if self.stream.read_buf(&mut self.received).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if let Some((status, body)) = parsed(&self.received)? {
                break (status, body);
            }
        };
        Ok((status, str::from_utf8(&self.received[body..]).map_err(io::Error::other)?))
    }

    /// [`request`](Self::request), whose answer must be 200.
    ///
    /// # Errors
    ///
    /// As there, and if the status is another.
    pub async fn ok(&mut self, method: &str, path: &str, body: &str) -> io::Result<&str> {
        match self.request(method, path, body).await? {
            (200, body) => Ok(body),
            (status, body) => Err(io::Error::other(format!("{method} {path}: {status} {body}"))),
        }
    }
}

/// Returns the status of an answer and where its body begins, or `None` if it is not complete.
fn parsed(answer: &[u8]) -> io::Result<Option<(u16, usize)>> {
    let bad = || io::Error::new(io::ErrorKind::InvalidData, "not an answer of the service");
    let Some(head) = answer.windows(4).position(|end| end == b"\r\n\r\n") else { return Ok(None) };
    let lines = str::from_utf8(&answer[..head]).map_err(io::Error::other)?;
    let status = lines.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or_else(bad)?;
    let length = lines.lines().find_map(|line| line.strip_prefix("content-length: ")).ok_or_else(bad)?;
    let length: usize = length.parse().map_err(io::Error::other)?;
    let body = head + 4;
    Ok((answer.len() >= body + length).then_some((status, body)))
}
