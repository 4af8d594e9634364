//! Unary calls with messages that are known by their descriptors only, as grpcurl makes them.

use prost_reflect::prost::Message as _;
use prost_reflect::{DynamicMessage, MessageDescriptor, MethodDescriptor};
use tonic::Status;
use tonic::client::Grpc;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::transport::Channel;

/// Calls a method.
pub async fn unary(
    channel: &Channel,
    method: &MethodDescriptor,
    request: DynamicMessage,
) -> Result<DynamicMessage, Status> {
    let mut client = Grpc::new(channel.clone());
    client
        .ready()
        .await
        .map_err(|error| Status::unknown(error.to_string()))?;
    let path = format!("/{}/{}", method.parent_service().full_name(), method.name());
    let path = path.parse().unwrap();
    let codec = DynamicCodec(method.output());
    let response = client
        .unary(tonic::Request::new(request), path, codec)
        .await?;
    Ok(response.into_inner())
}

/// Encodes what it is given and decodes into one message type.
#[derive(Clone)]
struct DynamicCodec(MessageDescriptor);

impl Codec for DynamicCodec {
    type Encode = DynamicMessage;
    type Decode = DynamicMessage;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        self.clone()
    }

    fn decoder(&mut self) -> Self {
        self.clone()
    }
}

impl Encoder for DynamicCodec {
    type Item = DynamicMessage;
    type Error = Status;

    fn encode(
        &mut self,
        message: DynamicMessage,
        buffer: &mut EncodeBuf<'_>,
    ) -> Result<(), Status> {
        message
            .encode(buffer)
            .map_err(|error| Status::internal(error.to_string()))
    }
}

impl Decoder for DynamicCodec {
    type Item = DynamicMessage;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<DynamicMessage>, Status> {
        DynamicMessage::decode(self.0.clone(), buffer)
            .map(Some)
            .map_err(|error| Status::internal(error.to_string()))
    }
}
