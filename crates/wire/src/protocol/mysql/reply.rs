//! Where a server's answer to a command ends.

use crate::protocol::framed::{Stop, le16, le32};

/// The length that means that the message continues in the next packet.
pub(super) const GOES_ON: u64 = 0xff_ffff;

/// The commands, by their first byte.
pub(super) mod command {
    pub(in super::super) const QUIT: u64 = 0x01;
    pub(in super::super) const QUERY: u64 = 0x03;
    pub(in super::super) const FIELD_LIST: u64 = 0x04;
    pub(in super::super) const STATISTICS: u64 = 0x09;
    pub(in super::super) const PROCESS_INFO: u64 = 0x0a;
    pub(in super::super) const PING: u64 = 0x0e;
    pub(in super::super) const CHANGE_USER: u64 = 0x11;
    pub(in super::super) const BINLOG_DUMP: u64 = 0x12;
    pub(in super::super) const PREPARE: u64 = 0x16;
    pub(in super::super) const EXECUTE: u64 = 0x17;
    pub(in super::super) const SEND_LONG_DATA: u64 = 0x18;
    pub(in super::super) const STMT_CLOSE: u64 = 0x19;
    pub(in super::super) const RESET: u64 = 0x1a;
    pub(in super::super) const FETCH: u64 = 0x1c;
    pub(in super::super) const BINLOG_DUMP_GTID: u64 = 0x1e;
    pub(in super::super) const BULK: u64 = 0xfa;
    /// Not a command: the login.
    pub(in super::super) const LOGIN: u64 = 0x100;

    /// The name of a command in the protocol's documents.
    pub(in super::super) fn name(code: u8) -> Option<&'static str> {
        Some(match code {
            0x00 => "COM_SLEEP",
            0x01 => "COM_QUIT",
            0x02 => "COM_INIT_DB",
            0x03 => "COM_QUERY",
            0x04 => "COM_FIELD_LIST",
            0x05 => "COM_CREATE_DB",
            0x06 => "COM_DROP_DB",
            0x07 => "COM_REFRESH",
            0x08 => "COM_SHUTDOWN",
            0x09 => "COM_STATISTICS",
            0x0a => "COM_PROCESS_INFO",
            0x0b => "COM_CONNECT",
            0x0c => "COM_PROCESS_KILL",
            0x0d => "COM_DEBUG",
            0x0e => "COM_PING",
            0x0f => "COM_TIME",
            0x10 => "COM_DELAYED_INSERT",
            0x11 => "COM_CHANGE_USER",
            0x12 => "COM_BINLOG_DUMP",
            0x13 => "COM_TABLE_DUMP",
            0x14 => "COM_CONNECT_OUT",
            0x15 => "COM_REGISTER_SLAVE",
            0x16 => "COM_STMT_PREPARE",
            0x17 => "COM_STMT_EXECUTE",
            0x18 => "COM_STMT_SEND_LONG_DATA",
            0x19 => "COM_STMT_CLOSE",
            0x1a => "COM_STMT_RESET",
            0x1b => "COM_SET_OPTION",
            0x1c => "COM_STMT_FETCH",
            0x1d => "COM_DAEMON",
            0x1e => "COM_BINLOG_DUMP_GTID",
            0x1f => "COM_RESET_CONNECTION",
            0xfa => "COM_STMT_BULK_EXECUTE",
            _ => return None,
        })
    }
}

/// Flags of a server's state: more results follow, and rows are fetched by a cursor.
const MORE_RESULTS: u16 = 0x0008;
const CURSOR: u16 = 0x0040;

/// The error that MariaDB reports progress with.
const PROGRESS: u16 = 0xffff;

/// What is expected next.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Stage {
    /// The first packet of a response or of a result.
    #[default]
    First,
    /// Definitions of this many columns.
    Columns(u64),
    /// The end of the definitions, or a row.
    AfterColumns,
    /// Rows.
    Rows,
    /// This many packets that describe a prepared statement.
    Definitions(u32),
}

/// Reads the responses to commands, packet by packet.
#[derive(Debug, Default)]
pub(super) struct Reply {
    stage: Stage,
    /// Whether EOF packets are omitted; `None` until that is known.
    deprecate_eof: Option<bool>,
    error: Option<u16>,
    prepared: Option<u32>,
    wants_file: bool,
}

impl Reply {
    /// Resets to the state between responses.
    pub(super) fn reset(&mut self) {
        self.stage = Stage::First;
    }

    /// Sets what was negotiated at login.
    pub(super) fn deprecate_eof(&mut self, is_on: bool) {
        self.deprecate_eof = Some(is_on);
    }

    /// The error that the last packet was.
    pub(super) fn error(&self) -> Option<u16> {
        self.error
    }

    /// The number of the statement that the last packet prepared.
    pub(super) fn prepared(&self) -> Option<u32> {
        self.prepared
    }

    /// Whether the last packet requests a file.
    pub(super) fn wants_file(&self) -> bool {
        self.wants_file
    }

    /// Reads the first bytes of a packet of `length` that answers `command`, and returns whether it ends the response.
    pub(super) fn packet(&mut self, command: u64, body: &[u8], length: u64) -> Result<bool, Stop> {
        (self.error, self.prepared, self.wants_file) = (None, None, false);
        let &head = body.first().ok_or(Stop::Lost)?;
        let ends = match self.stage {
            Stage::Columns(left) => {
                if head == 0xff {
                    self.fail(body)
                } else {
                    self.stage = if left > 1 { Stage::Columns(left - 1) } else { Stage::AfterColumns };
                    false
                }
            }
            Stage::AfterColumns if head == 0xfe && length == 5 => {
                self.deprecate_eof = Some(false);
                self.stage = Stage::Rows;
                flags(body, length) & CURSOR != 0
            }
            Stage::AfterColumns => {
                self.deprecate_eof = Some(true);
                self.stage = Stage::Rows;
                self.row(body, length)
            }
            Stage::Rows => self.row(body, length),
            Stage::Definitions(left) => {
                self.stage = Stage::Definitions(left - 1);
                left == 1
            }
            Stage::First => self.first(command, body, length)?,
        };
        if ends {
            self.stage = Stage::First;
        }
        Ok(ends)
    }

    fn first(&mut self, command: u64, body: &[u8], length: u64) -> Result<bool, Stop> {
        if body[0] == 0xff {
            return Ok(self.fail(body));
        }
        match command {
            command::QUERY | command::EXECUTE | command::BULK | command::PROCESS_INFO => self.result(body, length),
            command::PREPARE => self.statement(body),
            command::FETCH | command::FIELD_LIST => {
                self.stage = Stage::Rows;
                Ok(self.row(body, length))
            }
            // A change of the method, or more of a challenge.
            command::LOGIN | command::CHANGE_USER => Ok(body[0] == 0),
            _ => Ok(true),
        }
    }

    /// The first packet of a result.
    fn result(&mut self, body: &[u8], length: u64) -> Result<bool, Stop> {
        match body[0] {
            0 => Ok(flags(body, length) & MORE_RESULTS == 0),
            0xfb => {
                self.wants_file = true;
                Ok(false)
            }
            _ => {
                let (columns, size) = integer(body).ok_or(Stop::Lost)?;
                // MariaDB states whether the definitions follow, when the client may have them cached.
                let follow = body.get(size).is_none_or(|follow| *follow != 0);
                self.stage = if follow { Stage::Columns(columns) } else { Stage::AfterColumns };
                if columns == 0 || length > size as u64 + 1 { Err(Stop::Lost) } else { Ok(false) }
            }
        }
    }

    fn row(&mut self, body: &[u8], length: u64) -> bool {
        match body[0] {
            0xff => self.fail(body),
            // A text row that begins like this has at least 16 MiB.
            0xfe if length < GOES_ON => {
                let more = flags(body, length) & MORE_RESULTS != 0;
                self.stage = Stage::First;
                !more
            }
            _ => false,
        }
    }

    /// The first packet of a prepared statement.
    fn statement(&mut self, body: &[u8]) -> Result<bool, Stop> {
        let id = le32(body, 1).ok_or(Stop::Lost)?;
        let (Some(columns), Some(parameters)) = (count(body, 5), count(body, 7)) else { return Err(Stop::Lost) };
        self.prepared = Some(id);
        let groups = u32::from(columns > 0) + u32::from(parameters > 0);
        if groups == 0 {
            return Ok(true);
        }
        let ends = if self.deprecate_eof.ok_or(Stop::Lost)? { 0 } else { groups };
        self.stage = Stage::Definitions(columns + parameters + ends);
        Ok(false)
    }

    /// An error, unless it reports progress. Returns whether it ends the response.
    fn fail(&mut self, body: &[u8]) -> bool {
        let code = body.get(1..3).map_or(0, |code| u16::from_le_bytes([code[0], code[1]]));
        if code == PROGRESS {
            return false;
        }
        self.error = Some(code);
        true
    }
}

fn count(body: &[u8], at: usize) -> Option<u32> {
    le16(body, at).map(u32::from)
}

/// A length-encoded integer and its bytes.
fn integer(body: &[u8]) -> Option<(u64, usize)> {
    let size = match *body.first()? {
        small @ 0..=0xfa => return Some((small.into(), 1)),
        0xfc => 2,
        0xfd => 3,
        0xfe => 8,
        _ => return None,
    };
    let bytes = body.get(1..=size)?;
    Some((bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)), size + 1))
}

/// The flags of an OK or EOF packet; none when it is too short for them.
fn flags(body: &[u8], length: u64) -> u16 {
    let at = if body.first() == Some(&0xfe) && length == 5 {
        3
    } else {
        let rows = body.get(1..).and_then(integer).map_or(0, |(_, size)| size);
        let id = body.get(1 + rows..).and_then(integer).map_or(0, |(_, size)| size);
        1 + rows + id
    };
    le16(body, at).unwrap_or(0)
}
