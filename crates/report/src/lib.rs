//! What tuning found, as one page: made from the database afterwards, or served live while it happens.
//!
//! A [`Collector`] takes in runs, tasks and measured candidates, from stored records or from events, and makes a
//! [`Report`]: plain data, which the page holds as JSON and draws by itself. The page is one file that needs no network.
//!
//! | module | holds |
//! |---|---|
//! | [`report`] | the data of a page, with types of their own |
//! | [`collector`] | from what is measured to a report |
//! | [`stored`] | runs of a database as a report |
//! | [`knobs`] | the numbers of a trace as named knobs |
//! | `describe` | tasks and machines as far as their texts tell |
//! | [`importance`] | how much each knob explains of the measured time |
//! | [`accuracy`] | how well a cost model ranks what is measured after it |
//! | [`thinning`] | fewer samples, and shorter numbers |
//! | [`peers`] | times of other runtimes, read from a file |
//! | [`page`] | a report as HTML; its files are in `page/` |
//! | [`server`] | the page served while tuning, with server-sent events |
//! | [`error`] | why there is no report |

pub mod accuracy;
pub mod collector;
mod describe;
pub mod error;
pub mod importance;
pub mod knobs;
pub mod page;
pub mod peers;
pub mod report;
pub mod server;
pub mod stored;
pub mod thinning;

pub use collector::{Collector, Measured, RunFacts, TaskFacts};
pub use error::ReportError;
pub use page::page;
pub use report::{Report, Roofs};
pub use server::{Dashboard, DashboardError};
pub use stored::Selection;
