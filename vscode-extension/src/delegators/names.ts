/** Valid names of delegators and model servers, as in the sidecar. Names become file names on every platform. */
export const VALID_NAME = /^[a-z0-9][a-z0-9._-]{0,63}$/;
