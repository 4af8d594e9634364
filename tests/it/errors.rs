//! What gRPC's own machinery refuses has the details that all of Assent's errors have: told by raw bytes.

use std::collections::BTreeSet;

use assent::pb;
use prost_reflect::DescriptorPool;
use prost_reflect::prost::Message as _;
use prost_reflect::prost::bytes::{Buf as _, BufMut as _};
use tonic::client::Grpc;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::transport::Channel;
use tonic::{Code, Request, Status};
use tonic_types::StatusExt as _;
use tonic_types::pb::Status as StatusDetails;

use crate::support::server::Process;

const SERVICE: &str = "assent.v1.DecisionService";

/// Sends bytes as they are, and receives them so.
#[derive(Clone, Copy)]
struct Bytes;

impl Codec for Bytes {
    type Encode = Vec<u8>;
    type Decode = Vec<u8>;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        *self
    }

    fn decoder(&mut self) -> Self {
        *self
    }
}

impl Encoder for Bytes {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, bytes: Vec<u8>, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put_slice(&bytes);
        Ok(())
    }
}

impl Decoder for Bytes {
    type Item = Vec<u8>;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Vec<u8>>, Status> {
        Ok(Some(buffer.copy_to_bytes(buffer.remaining()).to_vec()))
    }
}

async fn call(channel: &Channel, path: &str, request: Request<Vec<u8>>) -> Result<Vec<u8>, Status> {
    let mut client = Grpc::new(channel.clone()).max_encoding_message_size(usize::MAX);
    client.ready().await.unwrap();
    let answer = client.unary(request, path.parse().unwrap(), Bytes).await?;
    Ok(answer.into_inner())
}

/// The code, the reason and the message; the details are whole.
async fn refusal(channel: &Channel, path: &str, bytes: Vec<u8>) -> (Code, String, String) {
    refusal_of(channel, path, Request::new(bytes)).await
}

async fn refusal_of(
    channel: &Channel,
    path: &str,
    request: Request<Vec<u8>>,
) -> (Code, String, String) {
    let status = call(channel, path, request).await.unwrap_err();
    let info = status.get_error_details().error_info().cloned().unwrap();
    assert_eq!(info.domain, "assent");
    let details = StatusDetails::decode(status.details()).unwrap();
    assert_eq!(
        (Code::from(details.code), details.message.as_str()),
        (status.code(), status.message()),
        "clients compare the two"
    );
    (status.code(), info.reason, status.message().to_owned())
}

#[tokio::test]
async fn bytes_that_are_no_message_are_an_invalid_request_of_every_method() {
    let server = Process::start(&[]);
    let channel = server.channel();
    let pool = DescriptorPool::decode(pb::FILE_DESCRIPTOR_SET).unwrap();
    let service = pool.get_service_by_name(SERVICE).unwrap();
    let mut asked = BTreeSet::new();
    for method in service.methods() {
        let path = format!("/{SERVICE}/{}", method.name());
        for bytes in [
            // A field number of zero; a length past the end; a varint without an end.
            vec![0x02, 0x00],
            vec![0x0a, 0x7f, b'x'],
            vec![0xff; 12],
        ] {
            let (code, reason, message) = refusal(&channel, &path, bytes).await;
            assert_eq!(
                (code, reason.as_str()),
                (Code::InvalidArgument, "INVALID_REQUEST")
            );
            assert!(
                message.starts_with("the request cannot be read: "),
                "{message}"
            );
        }
        asked.insert(method.name().to_owned());
    }
    assert!(
        asked.contains("Decide") && asked.contains("WatchSuspensions"),
        "{asked:?}"
    );
}

#[tokio::test]
async fn a_text_that_is_not_utf_8_is_an_invalid_request() {
    let server = Process::start(&[]);
    // ClassifyRequest.call.call_id.
    let bytes = vec![0x0a, 0x03, 0x0a, 0x01, 0xff];
    let path = format!("/{SERVICE}/Classify");
    let (code, reason, message) = refusal(&server.channel(), &path, bytes).await;
    assert_eq!(
        (code, reason.as_str()),
        (Code::InvalidArgument, "INVALID_REQUEST")
    );
    assert!(message.contains("UTF-8"), "{message}");
}

#[tokio::test]
async fn a_message_that_is_too_large_is_an_invalid_request() {
    let server = Process::start(&[]);
    let path = format!("/{SERVICE}/Decide");
    let (code, reason, message) =
        refusal(&server.channel(), &path, vec![0; 6 * 1024 * 1024 + 1]).await;
    assert_eq!(
        (code, reason.as_str()),
        (Code::InvalidArgument, "INVALID_REQUEST")
    );
    assert!(
        message.starts_with("the request is too large: "),
        "{message}"
    );
    assert!(message.contains("6291456"), "{message}");
}

#[tokio::test]
async fn what_is_not_served_and_what_cannot_be_unpacked_is_unimplemented() {
    let server = Process::start(&[]);
    let channel = server.channel();
    for path in [
        "/assent.v1.DecisionService/Guess",
        "/assent.v1.PolicyPortService/AllowTool",
        "/somebody.Elses/Method",
    ] {
        let (code, reason, message) = refusal(&channel, path, Vec::new()).await;
        assert_eq!(
            (code, reason.as_str()),
            (Code::Unimplemented, "UNIMPLEMENTED")
        );
        assert_eq!(message, "this version serves no such method");
    }
    let mut packed = Request::new(Vec::new());
    let encoding = "grpc-encoding";
    packed
        .metadata_mut()
        .insert(encoding, "gzip".parse().unwrap());
    let path = format!("/{SERVICE}/Classify");
    let (code, reason, message) = refusal_of(&channel, &path, packed).await;
    assert_eq!(
        (code, reason.as_str()),
        (Code::Unimplemented, "UNIMPLEMENTED")
    );
    assert!(message.contains("gzip"), "{message}");
}

#[tokio::test]
async fn an_error_of_a_method_keeps_its_own_details() {
    let server = Process::start(&[]);
    let request = pb::GetSuspensionRequest {
        suspension_id: "c8a9cf72-3a53-4b20-8f5a-2a0a3a4f5b07".to_owned(),
        ..Default::default()
    };
    let path = format!("/{SERVICE}/GetSuspension");
    let bytes = request.encode_to_vec();
    let (code, reason, _) = refusal(&server.channel(), &path, bytes).await;
    assert_eq!(
        (code, reason.as_str()),
        (Code::NotFound, "SUSPENSION_NOT_FOUND")
    );
}
