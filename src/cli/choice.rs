//! The words that flags choose from, and what they are on the wire.

use clap::ValueEnum;

use crate::pb;

/// Where a tool runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OriginFlag {
    /// The client's own code
    Code,
    /// An HTTP endpoint
    Http,
    /// An MCP server
    Mcp,
    /// Another agent, over A2A
    A2a,
    /// A workflow step
    Workflow,
}

impl OriginFlag {
    pub(super) fn wire(self) -> pb::Origin {
        match self {
            Self::Code => pb::Origin::Code,
            Self::Http => pb::Origin::Http,
            Self::Mcp => pb::Origin::Mcp,
            Self::A2a => pb::Origin::A2a,
            Self::Workflow => pb::Origin::Workflow,
        }
    }
}

/// How far a suspension has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StatusFlag {
    /// Nobody has answered yet
    Pending,
    /// A person approved
    Approved,
    /// A person declined
    Denied,
    /// Another kind was answered
    Answered,
    /// Nobody answered in time
    Expired,
    /// It was withdrawn
    Cancelled,
}

impl StatusFlag {
    pub(super) fn wire(self) -> pb::SuspensionStatus {
        match self {
            Self::Pending => pb::SuspensionStatus::Pending,
            Self::Approved => pb::SuspensionStatus::Approved,
            Self::Denied => pb::SuspensionStatus::Denied,
            Self::Answered => pb::SuspensionStatus::Answered,
            Self::Expired => pb::SuspensionStatus::Expired,
            Self::Cancelled => pb::SuspensionStatus::Cancelled,
        }
    }
}

/// How an execution ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CompletionFlag {
    /// The tool ran and succeeded
    Success,
    /// The tool ran, or was tried, and failed
    Failure,
    /// Nobody can tell whether it ran
    Unknown,
}

impl CompletionFlag {
    pub(super) fn wire(self) -> pb::Completion {
        match self {
            Self::Success => pb::Completion::Success,
            Self::Failure => pb::Completion::Failure,
            Self::Unknown => pb::Completion::Unknown,
        }
    }
}
