/** The variables that commands other than `serve` read. A test compares them with what the sources name. */
export const CLIENT_VARIABLES: readonly string[] = [
  'HOLDFAST_URL',
  'HOLDFAST_APP',
  'HOLDFAST_SPACE',
  'HOLDFAST_TOKEN',
  'HOLDFAST_PROFILE',
  'HOLDFAST_MIGRATE_FROM',
  'HOLDFAST_MIGRATE_TO',
  'HOLDFAST_OPERATOR_URL',
];
