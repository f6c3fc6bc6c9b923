/** The path prefix of the operator API. */
export const API_PATH = '/operator/v1/';
