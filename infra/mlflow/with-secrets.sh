#!/usr/bin/env bash
# Start the tracking server, or prepare what it stands on, with secrets read from files.
#   with-secrets.sh prepare            make the bucket and the database's tables, once
#   with-secrets.sh serve [OPTION...]  run the server; the options go to `mlflow server`
# Reads  SECRETS/postgres_password, SECRETS/store_password, $DATABASE (user@host:port/name), $STORE_URL, $STORE_USER, $BUCKET
set -euo pipefail

secrets="${SECRETS:-/run/secrets}"
# In the environment of this process alone: not in its arguments, which anyone on the machine may list.
MLFLOW_BACKEND_STORE_URI="postgresql+psycopg2://${DATABASE%%@*}:$(< "${secrets}/postgres_password")@${DATABASE#*@}"
export MLFLOW_BACKEND_STORE_URI MLFLOW_ARTIFACTS_DESTINATION="s3://${BUCKET}"
if [[ -n "${STORE_URL:-}" ]]; then
  AWS_SECRET_ACCESS_KEY="$(< "${secrets}/store_password")"
  export AWS_ACCESS_KEY_ID="${STORE_USER}" AWS_SECRET_ACCESS_KEY MLFLOW_S3_ENDPOINT_URL="${STORE_URL}"
fi

case "${1:-}" in
  prepare)
    if [[ -n "${STORE_URL:-}" ]]; then
      python - << 'MAKE_BUCKET'
import os

import boto3

store = boto3.client("s3", endpoint_url=os.environ["MLFLOW_S3_ENDPOINT_URL"])
if os.environ["BUCKET"] not in [bucket["Name"] for bucket in store.list_buckets()["Buckets"]]:
    store.create_bucket(Bucket=os.environ["BUCKET"])
MAKE_BUCKET
    fi
    # what `mlflow db upgrade` does, without the password among its arguments
    python -c 'import os, mlflow.db; mlflow.db.upgrade.callback(os.environ["MLFLOW_BACKEND_STORE_URI"])'
    ;;
  serve)
    exec mlflow server --host 0.0.0.0 --port 5000 --workers 4 "${@:2}"
    ;;
  *)
    echo "prepare or serve?" >&2
    exit 2
    ;;
esac
