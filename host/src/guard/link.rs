//! The socket between two of our processes. The new one finds it as its standard input, and the true
//! standard input travels over it: so no descriptor number is agreed on, and none leaks to the command.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::fcntl_dupfd_cloexec;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, socketpair,
};
use rustix::stdio::{dup2_stdin, stdin};
use tokio::io::Interest;
use tokio::net::UnixDatagram;

use super::protocol::MESSAGE_BYTES;

/// One end of it. Never waits; keeps the bounds of messages; closed by the kernel when its process dies.
#[derive(Debug)]
pub(super) struct Link<Socket = OwnedFd>(Socket);

/// What was received.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Received {
    /// A message of this many bytes.
    Message(usize),
    /// One that is too long.
    Malformed,
    /// The other side is gone.
    Closed,
}

impl Link {
    /// Two ends: ours, and one to be the standard input of a process about to be spawned.
    ///
    /// The latter must be closed here after the spawn, or the other's death goes unnoticed.
    pub(super) fn pair() -> io::Result<(Self, OwnedFd)> {
        Self::pair_with(stdin())
    }

    /// As [`pair`](Self::pair), with another standard input for the new process.
    pub(super) fn pair_with(stdin: BorrowedFd<'_>) -> io::Result<(Self, OwnedFd)> {
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        let ours = Self(ours);
        ours.pass_stdin(stdin)?;
        Ok((ours, theirs))
    }

    /// In the new process: the other end, with the true standard input put back in its place.
    pub(super) fn take_over() -> io::Result<Self> {
        let link = Self(fcntl_dupfd_cloexec(stdin(), 3)?);
        dup2_stdin(link.receive_stdin()?)?;
        Ok(link)
    }

    /// This end for use with tokio, whose datagram socket treats one that keeps a connection the same.
    pub(super) fn into_async(self) -> io::Result<Link<UnixDatagram>> {
        let socket = std::os::unix::net::UnixDatagram::from(self.0);
        socket.set_nonblocking(true)?;
        Ok(Link(UnixDatagram::from_std(socket)?))
    }

    fn pass_stdin(&self, stdin: BorrowedFd<'_>) -> io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let passed = [stdin];
        ancillary.push(SendAncillaryMessage::ScmRights(&passed));
        rustix::net::sendmsg(&self.0, &[IoSlice::new(STDIN)], &mut ancillary, SEND)?;
        Ok(())
    }

    fn receive_stdin(&self) -> io::Result<OwnedFd> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut word = [0; STDIN.len()];
        let received = rustix::net::recvmsg(
            &self.0,
            &mut [IoSliceMut::new(&mut word)],
            &mut ancillary,
            RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT,
        )?;
        let whole = !received.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC);
        if whole && received.bytes == STDIN.len() && word == STDIN {
            for message in ancillary.drain() {
                if let RecvAncillaryMessage::ScmRights(mut passed) = message {
                    return passed.next().ok_or_else(no_stdin);
                }
            }
        }
        Err(no_stdin())
    }
}

impl<Socket: AsFd> Link<Socket> {
    /// Send one message.
    pub(super) fn send(&self, message: &str) -> io::Result<()> {
        rustix::net::send(&self.0, message.as_bytes(), SEND)?;
        Ok(())
    }

    /// Receive one message into `buffer`; [`io::ErrorKind::WouldBlock`] when there is none.
    pub(super) fn receive(&self, buffer: &mut [u8; MESSAGE_BYTES]) -> io::Result<Received> {
        // TRUNC: the length that was sent, which tells a message that did not fit.
        let sent = match rustix::io::retry_on_intr(|| {
            rustix::net::recv(&self.0, buffer.as_mut_slice(), RecvFlags::TRUNC | RecvFlags::DONTWAIT)
        }) {
            Ok((_, sent)) => sent,
            Err(rustix::io::Errno::CONNRESET) => 0,
            Err(error) => return Err(error.into()),
        };
        Ok(match sent {
            // An empty message reads like the end, and counts as it.
            0 => Received::Closed,
            length if length <= MESSAGE_BYTES => Received::Message(length),
            _ => Received::Malformed,
        })
    }
}

impl Link<UnixDatagram> {
    /// Receive one message into `buffer`, when there is one. Cancel-safe.
    pub(super) async fn next(&self, buffer: &mut [u8; MESSAGE_BYTES]) -> io::Result<Received> {
        self.0.async_io(Interest::READABLE, || self.receive(buffer)).await
    }
}

impl<Socket: AsFd> AsFd for Link<Socket> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn no_stdin() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        "no standard input was passed; `incumbent run` starts this process",
    )
}

/// The first message, which carries the descriptor.
const STDIN: &[u8] = b"stdin";

/// Whoever does not read must not be able to stop us, nor whoever is gone.
const SEND: SendFlags = SendFlags::NOSIGNAL.union(SendFlags::DONTWAIT);
