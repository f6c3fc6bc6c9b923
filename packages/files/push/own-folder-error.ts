/** A push was given a folder that Holdfast itself made: see `describeOwnFolder`. In a file of its own, because its types go to browsers too. */
export class OwnFolderError extends Error {
  override readonly name = 'OwnFolderError';

  constructor(path: string, kind: string) {
    super(
      `${path} is ${kind}: it holds keys and the data of all tenants, so it is never pushed; name something else`,
    );
  }
}
