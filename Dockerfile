# The Plait server for docker-compose.yml: external stores, so no embedded server starts in here.
FROM python:3.11-slim
WORKDIR /app
COPY constraints.txt pyproject.toml README.md LICENSE ./
COPY plait plait
COPY vector vector
COPY graph graph
COPY etl etl
COPY server server
COPY configs configs
RUN pip install --no-cache-dir -c constraints.txt . \
 && useradd --uid 10001 --no-create-home plait \
 && install -d -o plait -g plait -m 0700 /var/lib/plait
USER 10001:10001
EXPOSE 50051
ENV PLAIT_CONFIG=/app/configs/production.yaml PLAIT_HOME=/var/lib/plait
CMD ["plait", "serve", "--make-certificate"]
