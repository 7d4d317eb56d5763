//! `ralph completions` and `ralph man`, generated from the clap definitions.

use camino::Utf8Path;
use clap::CommandFactory;

use super::reference;
use crate::args::Cli;
use crate::complete;
use crate::error::CliError;
use crate::exit::Exit;
use crate::render;

pub(crate) fn completions(shell: clap_complete::Shell) -> Result<Exit, CliError> {
    let script = complete::script(shell).map_err(CliError::failed)?;
    render::data(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Done)
}

pub(crate) fn manual(out: Option<&Utf8Path>) -> Result<Exit, CliError> {
    let Some(directory) = out else {
        let mut page = Vec::new();
        clap_mangen::Man::new(Cli::command()).render(&mut page).map_err(CliError::failed)?;
        render::data(&String::from_utf8_lossy(&page))?;
        return Ok(Exit::Done);
    };
    std::fs::create_dir_all(directory)
        .and_then(|()| clap_mangen::generate_to(Cli::command(), directory))
        .and_then(|()| std::fs::write(directory.join("ralph.toml.5"), reference::manual()))
        .map_err(|error| CliError::usage(error).hint(format!("is `{directory}` writable?")))?;
    Ok(Exit::Done)
}
