/** What operations can ask of the process that serves, beside its deployment. */
export interface LiveServer {
  /** ms since the epoch */
  readonly startedAt: number;
  /** the server ends: requests under way finish, none begins */
  isDraining(): boolean;
}
