//! Streams as Parquet, for DuckDB, Polars, Spark and others.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::basic::{LogicalType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{Type, TypePtr};
use weir_page::write_whole_by;

use super::columns::{self, Cell, Column, Kind};
use crate::report::{Report, Stream};

/// Rows that are written at once: as many as need some tens of megabytes.
const ROWS: usize = 1 << 16;

/// Writes a row for each stream; what is not known is null. Answers the path. The file is there whole or not at all.
///
/// # Errors
///
/// A sentence that names the file, what the system says, and what to do.
pub fn write_parquet(report: &Report, path: &Path) -> Result<PathBuf, String> {
    let columns = columns::all(report);
    write_whole_by(path, |file| {
        let schema = schema(&columns).map_err(io::Error::other)?;
        let made_by = format!("weir {}", env!("CARGO_PKG_VERSION"));
        let properties = Arc::new(WriterProperties::builder().set_created_by(made_by).build());
        let mut writer = SerializedFileWriter::new(file, schema, properties).map_err(io::Error::other)?;
        for streams in report.streams.chunks(ROWS) {
            let mut group = writer.next_row_group().map_err(io::Error::other)?;
            for column in &columns {
                write(&mut group, column, streams).map_err(io::Error::other)?;
            }
            group.close().map_err(io::Error::other)?;
        }
        writer.close().map(drop).map_err(io::Error::other)
    })
}

fn schema(columns: &[Column]) -> Result<TypePtr, ParquetError> {
    let field = |column: &Column| {
        let builder = match column.kind {
            Kind::Text => Type::primitive_type_builder(&column.name, Physical::BYTE_ARRAY)
                .with_logical_type(Some(LogicalType::String)),
            Kind::Whole => Type::primitive_type_builder(&column.name, Physical::INT64),
            Kind::Real => Type::primitive_type_builder(&column.name, Physical::DOUBLE),
        };
        builder.with_repetition(Repetition::OPTIONAL).build().map(Arc::new)
    };
    let fields = columns.iter().map(field).collect::<Result<Vec<_>, _>>()?;
    Type::group_type_builder("streams").with_fields(fields).build().map(Arc::new)
}

/// Writes one column of some streams: the values that there are, and for each stream whether it has one.
fn write<W: io::Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    column: &Column,
    streams: &[Stream],
) -> Result<(), ParquetError> {
    let Some(mut writer) = group.next_column()? else {
        return Err(ParquetError::General("the schema has fewer columns".to_owned()));
    };
    let cells: Vec<Option<Cell>> = streams.iter().map(|stream| (column.read)(stream)).collect();
    let there: Vec<i16> = cells.iter().map(|cell| i16::from(cell.is_some())).collect();
    let cells = cells.into_iter().flatten();
    match column.kind {
        Kind::Text => {
            let text = |cell| if let Cell::Text(text) = cell { Some(ByteArray::from(text.into_bytes())) } else { None };
            let values: Vec<ByteArray> = cells.filter_map(text).collect();
            writer.typed::<ByteArrayType>().write_batch(&values, Some(&there), None)?;
        }
        Kind::Whole => {
            let values: Vec<i64> =
                cells.filter_map(|cell| if let Cell::Whole(number) = cell { Some(number) } else { None }).collect();
            writer.typed::<Int64Type>().write_batch(&values, Some(&there), None)?;
        }
        Kind::Real => {
            let values: Vec<f64> =
                cells.filter_map(|cell| if let Cell::Real(number) = cell { Some(number) } else { None }).collect();
            writer.typed::<DoubleType>().write_batch(&values, Some(&there), None)?;
        }
    }
    writer.close()
}
