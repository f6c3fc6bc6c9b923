/** A secret that a person typed in the wrong place is not printed back: terminals and build logs keep what they show. */

const HIDDEN = '(not shown)';

const SECRETS: readonly (readonly [RegExp, string])[] = [
  // A token: parts of base64url, the first of which is a JSON object.
  [/eyJ[\w-]+(?:\.[\w-]*)+/g, HIDDEN],
  // What stands before the host of a URL. A password may hold any character but a space. Advice names its parts.
  [/(\w:\/\/)(?!USER\b)\S*@/g, `$1${HIDDEN}@`],
  // The same before a host alone.
  [/(^|[\s"'(])[^\s"'/@:]+:[^\s"'/@]+@/g, `$1${HIDDEN}@`],
  // Parameters of URLs, options and variables.
  [/((?:password|passwd|secret|token|signature|credential)\w*=)[^&\s"'(]+/gi, `$1${HIDDEN}`],
  // The private part of a key as JSON, perhaps as JSON once more.
  [/(\\?"(?:d|k|p|q|dp|dq|qi)\\?"\s*:\s*\\?")[^"\\]*/g, `$1${HIDDEN}`],
];

export function hideSecrets(text: string): string {
  return SECRETS.reduce((hidden, [secret, instead]) => hidden.replace(secret, instead), text);
}

/** A path that a person gave for a file; not shown if it looks like the secret that belongs into the file. */
export function nameGivenFile(path: string): string {
  return /^[\w+=.~-]{32,}$/.test(path) ? '(not shown, as it may be the secret itself)' : path;
}
