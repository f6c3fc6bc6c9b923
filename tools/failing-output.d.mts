/** What failed tests printed, of a test file's whole output. */
export function findFailingOutput(output: string): string;
/** At most `charsMax` of the text's characters, and a line that says how many are missing. */
export function cutMiddle(text: string, charsMax: number): string;
