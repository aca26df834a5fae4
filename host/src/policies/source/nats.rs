//! A policy in an object of a NATS bucket, its signature in the object's metadata.
//!
//! It is asked for twice a second, one small read: that needs no permission but reading, and a restarted,
//! wiped or unreachable server is nothing special.

use std::time::Duration;

use tokio::time::Instant;

use super::{Offer, SIGNATURE, SIGNATURE_BYTES, Said, Source, SourceError};
use crate::limits::COMPONENT_BYTES;
use crate::store::Fault;
use crate::store::nats::{Content, Nats, Objects};

/// How often the object is looked at: an offer follows its publication within a second, the download included.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// A download, all its pieces. Those are 128 KiB each, and a policy has at most 32 of them.
const DOWNLOAD: Duration = Duration::from_secs(30);

/// A policy in an object of a NATS bucket.
#[derive(Debug)]
pub struct NatsSource {
    objects: Objects,
    name: String,
    from: String,
    next_look: Instant,
    /// The revision and the mark of what was dealt with. A bucket that was raised again counts anew, so one
    /// alone does not tell.
    done: Option<(u64, String)>,
    said: Said,
}

impl NatsSource {
    /// The object `name` of `bucket`, over this connection. Neither need be there yet.
    ///
    /// # Errors
    /// [`Fault::Denied`] for a name that no bucket can have.
    pub fn new(nats: &Nats, bucket: &str, name: &str) -> Result<Self, Fault> {
        let source = Source::Nats { bucket: bucket.into(), name: name.into() };
        Ok(Self {
            objects: nats.objects(bucket)?,
            name: name.into(),
            from: source.to_string(),
            next_look: Instant::now(),
            done: None,
            said: Said::default(),
        })
    }

    /// The next offer: first what is there, then one for each change of the object or its signature.
    /// Cancel-safe; a download that is cancelled begins anew.
    ///
    /// # Errors
    /// [`SourceError`], each kind once until it is over.
    pub async fn next(&mut self) -> Result<Offer, SourceError> {
        loop {
            tokio::time::sleep_until(self.next_look).await;
            let looked = self.look().await;
            self.next_look = Instant::now() + LOOK_EVERY;
            match looked {
                Ok(found) => {
                    self.said.well();
                    if let Some(offer) = found {
                        return Ok(offer);
                    }
                }
                Err(error) => {
                    if let Some(news) = self.said.error(error) {
                        return Err(news);
                    }
                }
            }
        }
    }

    /// Offer what is there again, changed or not.
    pub fn reread(&mut self) {
        self.done = None;
        self.said = Said::default();
        self.next_look = Instant::now();
    }

    async fn look(&mut self) -> Result<Option<Offer>, SourceError> {
        let store = |fault| SourceError::Store { from: self.from.clone(), fault };
        let object = self.objects.look(&self.name).await.map_err(store)?;
        let Some(object) = object.filter(|object| !object.deleted) else {
            return Err(SourceError::Missing(self.from.clone()));
        };
        let mark = (object.revision, object.nuid.clone());
        if self.done.as_ref() == Some(&mark) {
            return Ok(None);
        }
        let unreadable = |why: String| SourceError::Unreadable { from: self.from.clone(), why };
        if object.size > COMPONENT_BYTES {
            return Err(SourceError::TooLarge(self.from.clone()));
        }
        let signature = object.metadata.get(SIGNATURE).cloned();
        if signature.as_ref().is_some_and(|text| text.len() > SIGNATURE_BYTES) {
            return Err(unreadable("its signature is larger than any is".into()));
        }
        let read = tokio::time::timeout(DOWNLOAD, self.objects.read(&object)).await;
        let read = read.map_err(|_| unreadable(format!("it did not come within {DOWNLOAD:?}")))?;
        let bytes = match read.map_err(store)? {
            Content::Whole(bytes) => bytes,
            // The next look sees by what.
            Content::Replaced => return Ok(None),
            Content::Damaged(why) => {
                let error = unreadable(why);
                // Not fetched again and again; what replaces it has another mark.
                self.done = Some(mark);
                return Err(error);
            }
        };
        self.done = Some(mark);
        Ok(self.said.offer(Offer { bytes, signature, from: self.from.clone() }))
    }
}
