/** The one rule about who may read a file that holds a secret. */

/** Owner and mode of an open file; the shape of `fs.Stats`. */
export interface SecretFileFacts {
  readonly mode: number;
  readonly uid: number;
  isFile(): boolean;
}

/** Far more than keys, tokens and certificates have: a path such as /dev/zero would give bytes without an end. */
export const TEXT_FILE_BYTES_MAX = 4 * 1024 * 1024;
/** The modes of whatever a command makes for its user alone. */
export const PRIVATE_FILE_MODE = 0o600;
export const PRIVATE_FOLDER_MODE = 0o700;
export const PRIVATE_UMASK = 0o077;

/** A descriptor that whoever started the process has opened for it: he decided what it reads. */
const HANDED_OVER = /^\/(?:dev\/stdin|(?:dev|proc\/self)\/fd\/\d+)$/;

/** Whether the path names a descriptor of this process. A descriptor gives its bytes once, and its mode says nothing. */
export function isHandedOver(path: string): boolean {
  return HANDED_OVER.test(path);
}

/**
 * The mode, in octal, of a file that others than its owner may use; undefined: only its owner may. Pipes and the like are taken,
 * because nobody can open them who was not given them. If `uid`, the user of this process, is not root, a file of root may be
 * readable by its group: so Kubernetes and systemd hand secrets to a service.
 */
export function findExposure(
  path: string,
  file: SecretFileFacts,
  uid: number | undefined,
): string | undefined {
  if (!file.isFile() || isHandedOver(path) || uid === undefined) return undefined;
  const refused = file.uid === 0 && uid !== 0 ? PRIVATE_UMASK & ~0o040 : PRIVATE_UMASK;
  return (file.mode & refused) === 0 ? undefined : (file.mode & 0o777).toString(8);
}

/** The message about a file that `findExposure` refuses. `what` names its role, such as "the private key". */
export function describeExposure(what: string, path: string, mode: string): string {
  return `${what} ${path} is a secret and others can use it (mode ${mode}); nothing in it was used. If it was not read by anyone run: chmod 600 ${path}`;
}
