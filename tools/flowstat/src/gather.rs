//! Reading captures: each packet becomes a record in a spool.

use weir_capture::LinkType;
use weir_filter::Filter;

use crate::fields::Fields;
use crate::hash::{Hasher, Key};
use crate::model::{Identity, Model};
use crate::packet::{Next, Packet, Side, Source};
use crate::records::{ReceivedRecord, SentRecord};
use crate::report::CaptureReport;
use crate::spool::Spool;
use crate::streams::Streams;
use crate::table::MAX_STREAMS;
use crate::ways::Ways;

/// Packets between two looks at the clock of whoever shows the progress.
const STEP: u64 = 1 << 17;

/// How packets of one side are chosen and known.
pub(crate) struct Gatherer<'a> {
    pub(crate) side: Side,
    pub(crate) model: &'a dyn Model,
    pub(crate) filter: Option<&'a Filter>,
    pub(crate) hasher: Hasher,
}

/// What is told while captures are read: the side, bytes read, bytes in all.
pub type Progress<'a> = &'a mut dyn FnMut(Side, u64, u64);

impl Gatherer<'_> {
    /// Hands all packets that count to `take`, with their times, their keys and what their flows are called.
    fn each<S: Source>(
        &self,
        source: &mut S,
        progress: Progress<'_>,
        mut take: impl FnMut(i64, &Packet<'_>, Key, u32) -> Result<(), String>,
    ) -> Result<CaptureReport, String> {
        let mut report = CaptureReport::default();
        loop {
            if report.packets.is_multiple_of(STEP) {
                let (done, all) = source.progress();
                progress(self.side, done, all);
            }
            let (time, packet) = match source.next() {
                Next::Packet(time, packet) => (time, packet),
                Next::Damaged(sentence) => {
                    report.damage.push(sentence);
                    continue;
                }
                Next::End => return Ok(report),
            };
            report.count(time, &packet);
            if let Some(filter) = self.filter {
                // Filters look at Ethernet frames, and would find nonsense in others.
                let foreign = packet.link != LinkType::ETHERNET;
                report.foreign += u64::from(foreign);
                if foreign || !filter.matches_captured(packet.data, packet.length) {
                    report.filtered += 1;
                    continue;
                }
            }
            match self.model.identify(&packet, self.side, &self.hasher) {
                Identity::Key(key) => take(time, &packet, key, 0)?,
                // As wide as what a table holds of a packet.
                Identity::Flow(key, flow) => take(time, &packet, key, flow % MAX_STREAMS)?,
                Identity::Elsewhere => report.elsewhere += 1,
                Identity::Unidentified => report.unidentified += 1,
                Identity::Misaddressed => report.misaddressed += 1,
                Identity::Cut => report.cut(&packet),
                Identity::Corrupt => report.corrupt += 1,
            }
        }
    }

    /// Reads what was sent.
    pub(crate) fn sent<S: Source>(
        &self,
        source: &mut S,
        fields: &Fields,
        (streams, ways): (&mut Streams, &mut Ways),
        spool: &mut Spool<SentRecord>,
        progress: Progress<'_>,
    ) -> Result<CaptureReport, String> {
        let mut common = Vec::new();
        self.each(source, progress, |time, packet, key, flow| {
            ways.remember(key, packet);
            common.clear();
            fields.write(packet, self.model, &mut common);
            let stream = streams.id(&common, &self.hasher)?;
            let number = streams.send(stream, time, packet.length)?;
            if spool.is_full() && spool.parts() == 1 {
                spool.split(|record| record.key.high())?;
            }
            spool.push(SentRecord { key, time, stream, number, length: packet.length, flow }, key.high())
        })
    }

    /// Reads what was received. Answers how many packets count, too.
    pub(crate) fn received<S: Source>(
        &self,
        source: &mut S,
        spool: &mut Spool<ReceivedRecord>,
        progress: Progress<'_>,
    ) -> Result<(CaptureReport, u32), String> {
        let mut places = 0u32;
        let report = self.each(source, progress, |time, packet, key, flow| {
            let place = places;
            places = places.checked_add(1).ok_or_else(|| format!("more than {} packets were received", u32::MAX))?;
            spool.push(ReceivedRecord { key, time, place, length: packet.length, flow, unused: 0 }, key.high())
        })?;
        Ok((report, places))
    }
}
