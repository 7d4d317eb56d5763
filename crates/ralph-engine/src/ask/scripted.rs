//! Answers supplied in advance; other questions go to the fallback, if there is one.

use super::{
    Answers, AskPerson, ConsentStep, Inquiry, MissingReply, NoReply, is_yes, option_meant,
};

/// The steps consented to in advance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Consents {
    pub prd: bool,
    pub understand: bool,
    pub run: bool,
}

impl Consents {
    const fn has(self, step: ConsentStep) -> bool {
        match step {
            ConsentStep::Prd => self.prd,
            ConsentStep::Understand => self.understand,
            ConsentStep::Run => self.run,
        }
    }
}

/// Answers from a file and consents from flags, used before a person is asked.
pub struct Scripted<'a> {
    pub answers: Answers,
    pub consents: Consents,
    /// Answers the remaining questions; without one, defaults are used.
    pub otherwise: Option<&'a mut dyn AskPerson>,
    /// Prints the text of a consent that a flag gives, or that is missing: no question is asked, but the text is shown.
    pub show: ShowInquiry,
}

/// Shows what is asked, with the flag that answers it.
pub type ShowInquiry = Box<dyn Fn(&Inquiry<'_>, Option<&'static str>)>;

impl Scripted<'_> {
    fn missing(inquiry: &Inquiry<'_>) -> NoReply {
        let (id, question) = (inquiry.id.to_owned(), inquiry.question.to_owned());
        NoReply::Missing(MissingReply::Answer { id, question })
    }
}

impl AskPerson for Scripted<'_> {
    fn text(&mut self, inquiry: &Inquiry<'_>, default: Option<&str>) -> Result<String, NoReply> {
        // Ordered answers are for questions without any other answer.
        let written = self.answers.named(inquiry.id, inquiry.question);
        let written = written.or_else(|| default.is_none().then(|| self.answers.next())?);
        match (written, &mut self.otherwise) {
            (Some(answer), _) => Ok(answer),
            (None, Some(person)) => person.text(inquiry, default),
            (None, None) => default.map(str::to_owned).ok_or_else(|| Self::missing(inquiry)),
        }
    }

    fn confirm(&mut self, inquiry: &Inquiry<'_>, default: bool) -> Result<bool, NoReply> {
        if let Some(step) = inquiry.consent {
            // A file of answers gives no consent: only the flag of the step does.
            return match &mut self.otherwise {
                _ if self.consents.has(step) => {
                    (self.show)(inquiry, Some(step.flag()));
                    Ok(true)
                }
                Some(person) => person.confirm(inquiry, false),
                None => {
                    (self.show)(inquiry, None);
                    Err(NoReply::Missing(MissingReply::Consent(step)))
                }
            };
        }
        let written = self.answers.named(inquiry.id, inquiry.question);
        match (written.and_then(|answer| is_yes(&answer)), &mut self.otherwise) {
            (Some(answer), _) => Ok(answer),
            (None, Some(person)) => person.confirm(inquiry, default),
            (None, None) => Ok(default),
        }
    }

    fn choose(
        &mut self,
        inquiry: &Inquiry<'_>,
        options: &[&str],
        default: usize,
    ) -> Result<usize, NoReply> {
        let written = self.answers.named(inquiry.id, inquiry.question);
        let written = written.and_then(|answer| option_meant(&answer, options));
        match (written, &mut self.otherwise) {
            (Some(index), _) => Ok(index),
            (None, Some(person)) => person.choose(inquiry, options, default),
            (None, None) => Ok(default),
        }
    }
}
