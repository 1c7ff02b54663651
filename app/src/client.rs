//! The client's end of the control socket.

use std::fmt;
use std::io::{self, BufRead, BufReader, IoSlice, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use serde_json::Value;
use weir_config::ConfigError;

use crate::socket::{self, SocketError};
use weir_protocol::{self as protocol, Call, MAX_REPLY, MAX_REQUEST, Reply, Request, Response, VERSION};

/// Why a request was not carried out.
#[derive(Debug)]
pub(crate) enum ClientError {
    /// There is nobody to ask.
    Socket(SocketError),
    /// The connection broke.
    Broken(io::Error),
    /// Something else than an answer came.
    Strange(String),
    /// It was refused.
    Refused {
        /// What is wrong and what to do.
        message: String,
        /// What is wrong with a configuration.
        errors: Vec<ConfigError>,
    },
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClientError::Socket(error) => error.fmt(f),
            ClientError::Broken(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                f.write_str("Weir closed the connection; its log says why")
            }
            ClientError::Broken(error) if error.kind() == io::ErrorKind::WouldBlock => {
                write!(f, "Weir has not answered for {} s; what it was asked to do it may still do", ANSWER.as_secs())
            }
            ClientError::Broken(error) => write!(f, "the connection to Weir broke: {error}"),
            ClientError::Strange(what) => write!(f, "Weir's answer is not understood: {what}"),
            ClientError::Refused { message, errors } => {
                f.write_str(message)?;
                errors.iter().try_for_each(|error| write!(f, "\n  {error}"))
            }
        }
    }
}

impl std::error::Error for ClientError {}

impl From<ClientError> for io::Error {
    fn from(error: ClientError) -> Self {
        io::Error::other(error)
    }
}

impl From<SocketError> for ClientError {
    fn from(error: SocketError) -> Self {
        ClientError::Socket(error)
    }
}

/// How long an answer may take: longer than any configuration takes to be read and put in place.
const ANSWER: Duration = Duration::from_secs(600);

/// A connection to a running Weir.
#[derive(Debug)]
pub(crate) struct Client {
    stream: BufReader<UnixStream>,
}

impl Client {
    /// Connects.
    pub(crate) fn connect(path: &Path) -> Result<Client, ClientError> {
        let stream = socket::connect(path)?;
        let bounded = stream.set_read_timeout(Some(ANSWER)).and(stream.set_write_timeout(Some(ANSWER)));
        bounded.map_err(ClientError::Broken)?;
        Ok(Client { stream: BufReader::new(stream) })
    }

    /// Gives up on an answer that takes longer.
    pub(crate) fn be_patient_for(&self, time: std::time::Duration) -> io::Result<()> {
        self.stream.get_ref().set_read_timeout(Some(time))?;
        self.stream.get_ref().set_write_timeout(Some(time))
    }

    /// Asks, and returns what was answered; a table that came in several lines is put together.
    pub(crate) fn ask(&mut self, request: Request) -> Result<Response, ClientError> {
        self.send(request)?;
        let mut table: Option<(Vec<String>, Vec<Value>)> = None;
        loop {
            match self.next()? {
                Response::Rows { columns, rows, time, more } => {
                    let (_, all) = table.get_or_insert_with(|| (columns, Vec::new()));
                    all.extend(rows);
                    if !more {
                        let (columns, rows) = table.unwrap_or_default();
                        return Ok(Response::Rows { columns, rows, time, more });
                    }
                }
                other => return Ok(other),
            }
        }
    }

    /// Asks for data.
    pub(crate) fn data(&mut self, request: Request) -> Result<Value, ClientError> {
        match self.ask(request)? {
            Response::Ok(value) => Ok(value),
            Response::Rows { rows, .. } => Ok(Value::Array(rows)),
            other => Err(ClientError::Strange(format!("{other:?}"))),
        }
    }

    /// Asks for a text, and hands on each piece as it comes.
    pub(crate) fn text<E: From<ClientError>>(
        &mut self,
        request: Request,
        mut piece: impl FnMut(&str) -> Result<(), E>,
    ) -> Result<(), E> {
        self.send(request)?;
        loop {
            match self.next()? {
                Response::Text { text, more } => {
                    piece(&text)?;
                    if !more {
                        return Ok(());
                    }
                }
                other => return Err(ClientError::Strange(format!("{other:?}")).into()),
            }
        }
    }

    /// Asks for data of a known form.
    pub(crate) fn read<T: serde::de::DeserializeOwned>(&mut self, request: Request) -> Result<T, ClientError> {
        serde_json::from_value(self.data(request)?).map_err(|error| ClientError::Strange(error.to_string()))
    }

    /// Sends a request whose answer [`Client::next`] reads, line by line.
    pub(crate) fn send(&mut self, request: Request) -> Result<(), ClientError> {
        let folder = match &request {
            Request::Reload { script: Some(script), .. } => script.folder.clone(),
            _ => None,
        };
        let line = protocol::line(&Call { version: VERSION, request })
            .map_err(|error| ClientError::Strange(error.to_string()))?;
        if line.len() > MAX_REQUEST {
            let message = format!("the request has {} bytes; {MAX_REQUEST} are possible", line.len());
            return Err(ClientError::Refused { message, errors: Vec::new() });
        }
        let sent = match &folder {
            Some(folder) => self.send_with(&line, folder),
            None => self.stream.get_mut().write_all(&line),
        };
        // Who is refused at the door finds it closed, yet can read why.
        match sent {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            sent => sent.map_err(ClientError::Broken),
        }
    }

    /// Sends a line with a descriptor, which goes with its first byte.
    fn send_with(&mut self, line: &[u8], descriptor: &impl AsFd) -> io::Result<()> {
        let descriptors = [descriptor.as_fd()];
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
        let stream = self.stream.get_mut();
        let sent = sendmsg(&*stream, &[IoSlice::new(line)], &mut ancillary, SendFlags::empty())?;
        stream.write_all(line.get(sent..).unwrap_or_default())
    }

    /// Ends a trace or capture: what was seen so far still comes.
    #[cfg(test)]
    pub(crate) fn enough(&self) -> io::Result<()> {
        self.stream.get_ref().shutdown(std::net::Shutdown::Write)
    }

    /// Ends a trace or capture when the user interrupts the program.
    pub(crate) fn enough_on_signals(&self) -> io::Result<()> {
        let stream = self.stream.get_ref().try_clone()?;
        // The last is what comes when the terminal is closed: what was captured until then is to be whole, too.
        let all = signal_hook::consts::TERM_SIGNALS.iter().chain([&signal_hook::consts::SIGHUP]);
        let mut signals = signal_hook::iterator::Signals::new(all)?;
        std::thread::spawn(move || {
            if signals.forever().next().is_some() {
                drop(stream.shutdown(std::net::Shutdown::Write));
            }
        });
        Ok(())
    }

    /// The next line of an answer.
    pub(crate) fn next(&mut self) -> Result<Response, ClientError> {
        let mut line = Vec::new();
        let most = MAX_REPLY as u64;
        self.stream.by_ref().take(most).read_until(b'\n', &mut line).map_err(ClientError::Broken)?;
        if line.last() != Some(&b'\n') {
            let end = if line.len() < MAX_REPLY { io::ErrorKind::UnexpectedEof } else { io::ErrorKind::FileTooLarge };
            return Err(ClientError::Broken(end.into()));
        }
        let reply: Reply = serde_json::from_slice(&line).map_err(|error| ClientError::Strange(error.to_string()))?;
        if reply.version != VERSION {
            let problem = format!("it speaks version {}, this program version {VERSION}", reply.version);
            return Err(ClientError::Strange(problem));
        }
        match reply.response {
            Response::Error { message, errors } => Err(ClientError::Refused { message, errors }),
            // It watches, and packets may be long in coming.
            watched @ (Response::Traced(_) | Response::Captured(_)) => {
                self.stream.get_ref().set_read_timeout(None).map_err(ClientError::Broken)?;
                Ok(watched)
            }
            response => Ok(response),
        }
    }
}
