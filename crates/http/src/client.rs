//! Whose request a task answers: what is shared among clients goes by it.

use std::future::Future;

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;

use super::peer::{Asker, TENANT_HEADER};
use ogive_door::senders::sent_by;

/// The client of a request: texts that are the same for all its requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Client {
    pub(super) tenant: String,
    /// Its login and address.
    pub(super) asker: String,
}

tokio::task_local! {
    static CLIENT: Client;
}

impl Client {
    fn new(request: &Request) -> Self {
        let tenant = request.headers().get(TENANT_HEADER).map(|value| String::from_utf8_lossy(value.as_bytes()));
        let asker = request.extensions().get::<Asker>().map(ToString::to_string);
        Self { tenant: tenant.unwrap_or_default().into_owned(), asker: asker.unwrap_or_default() }
    }

    /// The client of the request that this task answers; the server itself when it answers none.
    pub(super) fn current() -> Self {
        CLIENT.try_with(Self::clone).unwrap_or_default()
    }

    /// Does `work` in the name of the client.
    pub(super) async fn scope<T>(self, work: impl Future<Output = T>) -> T {
        CLIENT.scope(self, work).await
    }
}

/// Answers a request on behalf of its client, the sender of the samples in it.
pub(super) async fn carry(request: Request, next: Next) -> Response {
    let sender = request.extensions().get::<Asker>().map(Asker::sender).unwrap_or_default();
    Client::new(&request).scope(sent_by(sender.into(), next.run(request))).await
}
